"""`statewright runs` and `statewright definitions`, with one server."""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.integration.cli_server import serving

from statewright.cli.main import main

GRAPHS = """
import logging
import time
from pathlib import Path
from typing import TypedDict
from statewright import START, StateGraph, interrupt, wait_for_event
from statewright.workflow.steps import task_handler

class State(TypedDict, total=False):
    n: int
    text: str

def double(state):
    print("doubling")
    logging.getLogger("mine").warning("careful")
    return {"n": state["n"] * 2}

def fail(state):
    raise ValueError("no luck")

def ask(state):
    return {"n": interrupt("how many?")}

def two(state):
    return {"n": interrupt("first?", key="a") + interrupt("second?", key="b")}

def built(*fns):
    graph = StateGraph(State, name=fns[0].__name__)
    for fn in fns:
        graph.add_node(fn.__name__, fn)
        graph.add_edge(START, fn.__name__)
    return graph.compile()

def hold(state):
    while not Path(state["text"]).exists():
        time.sleep(0.02)

doubling, failing, asking, holding = built(double), built(fail), built(ask), built(hold)

def other(state):
    interrupt("and you?")

both = built(ask, other)

@task_handler("greet")
def greet(ctx):
    return {"status": "completed", "stateUpdates": {"text": "Hello " + ctx.workflow_input["name"]}}
"""
MAIL = {
    "name": "mail",
    "version": "1",
    "steps": [
        {"name": "greet", "type": "task", "handler": "greet"},
        {"name": "rest", "type": "wait", "durationMs": 50},
        {"name": "agree", "type": "approval", "contentKey": "text", "prompt": "Send it?"},
    ],
}
CALL = {
    "name": "call",
    "version": "1",
    "steps": [{"name": "wait", "type": "external_event", "signalType": "called"}],
}


@dataclass(frozen=True, slots=True)
class Result:
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "flow.py").write_text(GRAPHS, encoding="utf-8")
    with serving(folder, "dev", "flow.py", "--port", "0", "--no-reload") as process:
        yield process.url


@pytest.fixture
def statewright(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs a command in an empty folder, with the URL of the server in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STATEWRIGHT_URL", server)
    monkeypatch.delenv("STATEWRIGHT_API_KEY", raising=False)

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["statewright", *map(str, args)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as system_exit:
            code = int(system_exit.code or 0)
        output = capsys.readouterr()
        return Result(code, output.out, output.err)

    return call


def start(statewright: Command, *args: object) -> str:
    result = statewright("runs", "start", *args)
    assert (result.code, result.err) == (0, "")
    return result.out.strip()


@pytest.fixture
def mail(statewright: Command, tmp_path: Path) -> str:
    """The id of a run of the definition `mail` that waits for its approval."""
    for body in (MAIL, CALL):
        (tmp_path / "body.json").write_text(json.dumps(body), encoding="utf-8")
        assert statewright("definitions", "add", "body.json").code == 0
    run = start(statewright, "mail", "--input", "name=Ada")
    assert statewright("runs", "watch", run).code == 3
    return run


def test_starting_a_run_with_wait_prints_its_result(statewright: Command) -> None:
    result = statewright("runs", "start", "doubling", "--input", '{"n": 4}', "--wait")
    assert (result.code, json.loads(result.out)) == (0, {"n": 8})


def test_json_output_contains_the_whole_run(statewright: Command) -> None:
    result = statewright(
        "runs", "start", "doubling", "-i", "n=4", "--wait", "--json", "--tag", "x", "--metadata", "a=b"
    )
    run = json.loads(result.out)
    assert (run["status"], run["output"], run["tags"], run["metadata"]) == ("completed", {"n": 8}, ["x"], {"a": "b"})


def test_a_repeated_start_with_the_same_idempotency_key_starts_no_second_run(statewright: Command) -> None:
    first = start(statewright, "doubling", "-i", "n=4", "--idempotency-key", "k-1")
    again = statewright("runs", "start", "doubling", "-i", "n=4", "--idempotency-key", "k-1")
    note = "No new run was started: this run was started earlier with the same idempotency key.\n"
    assert (again.out.strip(), again.err) == (first, note)


def test_watching_a_failed_run_ends_with_1(statewright: Command) -> None:
    run = start(statewright, "failing", "-i", "n=4")
    result = statewright("runs", "watch", run)
    assert result.code == 1
    assert re.search(r"STEP_FAILED +fail", result.out)
    assert "Error: Step fail: ValueError: no luck" in result.err
    assert f"statewright runs retry {run}" in result.err
    assert statewright("runs", "retry", run).out == f"{run} is due again.\n"


def test_watching_a_cancelled_run_ends_with_130(statewright: Command) -> None:
    run = start(statewright, "asking")
    assert statewright("runs", "watch", run).code == 3
    assert statewright("runs", "cancel", run, "--reason", "no need").out == f"{run} is cancelled.\n"
    assert statewright("runs", "watch", run).code == 130


def test_watching_in_json_prints_one_event_per_line(statewright: Command) -> None:
    run = start(statewright, "doubling", "-i", "n=4")
    lines = statewright("runs", "watch", run, "--json").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert len(statewright("runs", "watch", run, "--json", "--after", 2).out.splitlines()) == len(lines) - 2


def test_a_question_is_answered(statewright: Command) -> None:
    run = start(statewright, "asking")
    waiting = statewright("runs", "watch", run)
    assert waiting.code == 3
    assert "step ask is waiting for an answer: how many?" in waiting.err
    assert f"statewright runs resume {run} --answer VALUE" in waiting.err
    assert statewright("runs", "resume", run, "--answer", "5").code == 0
    result = statewright("runs", "watch", run)
    assert result.code == 0
    assert result.out.endswith('{\n  "n": 5\n}\n')


def test_with_several_questions_each_answer_names_its_question(statewright: Command) -> None:
    run = start(statewright, "both")
    assert statewright("runs", "watch", run).code == 3
    refused = statewright("runs", "resume", run, "--answer", "5")
    assert refused.code == 2
    assert "has 2 open questions" in refused.err
    ids = re.findall(r"^  ([0-9a-f]{32})  ", refused.err, re.M)
    answers = [word for question in ids for word in ("--answer", f"{question}=5")]
    assert statewright("runs", "resume", run, *answers).code == 0
    assert statewright("runs", "watch", run).code == 0


def test_an_approval_is_decided_by_the_id_of_its_run(statewright: Command, mail: str) -> None:
    assert mail in statewright("runs", "approve").out
    result = statewright("runs", "approve", mail, "--by", "Grace")
    assert result.out.endswith(f"is approved. Run {mail} continues.\n")
    assert statewright("runs", "watch", mail).code == 0
    assert "is not waiting for an approval" in statewright("runs", "approve", mail).err


def test_an_approval_is_edited(statewright: Command, mail: str) -> None:
    Path("better.txt").write_text("Good day", encoding="utf-8")
    assert statewright("runs", "approve", mail, "--edit", "@better.txt").code == 0
    watched = statewright("runs", "watch", mail, "--to-the-end")
    assert (watched.code, '"text": "Good day"' in watched.out) == (0, True)


def test_an_approval_cannot_be_answered_as_a_question(statewright: Command, mail: str) -> None:
    result = statewright("runs", "resume", mail, "--answer", "yes")
    assert (result.code, result.out) == (2, "")
    assert (
        result.err
        == f"Error: Run {mail} is waiting for an approval. Decide on it with: statewright runs approve {mail}\n"
    )


def test_an_error_names_the_option_of_an_invalid_payload(statewright: Command, mail: str) -> None:
    result = statewright("runs", "signal", mail, "called", "--payload", "{x")
    assert (result.code, result.err.partition(" is not valid JSON")[0]) == (2, "Error: --payload '{x'")


def test_a_message_is_printed_for_a_run_without_logs(statewright: Command, mail: str) -> None:
    result = statewright("runs", "logs", mail, "--step", "nobody")
    assert (result.code, result.out, result.err) == (0, "", "Step 'nobody' has no logs.\n")


def test_the_error_for_an_invalid_url_gives_an_example(statewright: Command) -> None:
    result = statewright("runs", "ls", "--url", "foo")
    assert (result.code, result.out) == (2, "")
    assert result.err == "Error: 'foo' is not a valid server URL. Use one such as http://127.0.0.1:8123.\n"


def test_an_approval_is_rejected_and_the_run_fails(statewright: Command, mail: str) -> None:
    pending = json.loads(statewright("runs", "approve", "--json").out)
    (approval,) = [request["id"] for request in pending if request["workflowRunId"] == mail]
    assert json.loads(statewright("runs", "approve", approval, "--reject", "--json").out)["decision"] == "rejected"
    watched = statewright("runs", "watch", mail)
    assert (watched.code, "APPROVAL_REJECTED" in watched.err) == (1, True)
    twice = statewright("runs", "approve", approval)
    assert (twice.code, "Error: " in twice.err) == (2, True)


def test_a_signal_wakes_a_run(statewright: Command, mail: str) -> None:
    run = start(statewright, "call")
    assert f"statewright runs signal {run} called --payload '{{}}'" in statewright("runs", "watch", run).err
    assert statewright("runs", "signal", run, "called", "--payload", "who=Ada", "--key", "s-1").code == 0
    watched = statewright("runs", "watch", run)
    assert (watched.code, '"who": "Ada"' in watched.out) == (0, True)


def test_pausing_a_waiting_run_fails_with_a_reason(statewright: Command) -> None:
    run = start(statewright, "asking")
    statewright("runs", "watch", run)
    result = statewright("runs", "pause", run)
    assert (result.code, "SW-invalid-transition" in result.err) == (2, True)


def test_runs_are_listed_and_filtered(statewright: Command) -> None:
    run = start(statewright, "doubling", "-i", "n=1", "--tag", "listed", "--metadata", "customer=acme")
    statewright("runs", "watch", run)
    listed = statewright("runs", "ls", "--tag", "listed", "--status", "completed,failed", "--graph", "doubling")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["RUN", run]
    by_metadata = statewright("runs", "ls", "--metadata", "customer=acme", "--json")
    assert [record["id"] for record in json.loads(by_metadata.out)] == [run]
    assert statewright("runs", "ls", "--tag", "nobody").out == "No runs match the filters.\n"
    assert statewright("runs", "ls", "--queue", "slow").out == "No runs match the filters.\n"
    queued = start(statewright, "doubling", "-i", "n=1", "--queue", "slow")
    in_queue = statewright("runs", "ls", "--queue", "slow").out.splitlines()
    assert ["QUEUE" in in_queue[0], *(line.split()[0] for line in in_queue[1:])] == [True, queued]
    assert statewright("runs", "ls", "--dead").out == "No runs match the filters.\n"
    assert len(json.loads(statewright("runs", "ls", "--limit", 1, "--json").out)) == 1


def test_the_error_for_an_invalid_filter_names_the_valid_values(statewright: Command) -> None:
    result = statewright("runs", "ls", "--status", "compleeted")
    assert (result.code, "'completed'" in result.err) == (2, True)
    result = statewright("runs", "ls", "--metadata", "x")
    assert result.err == "Error: --metadata 'x' does not have the form NAME=VALUE.\n"


def test_a_run_is_shown_with_steps_and_events(statewright: Command, mail: str) -> None:
    output = statewright("runs", "show", mail).out
    assert re.search(r"^status +waiting$", output, re.M)
    assert re.search(r"^agree +approval +waiting +1", output, re.M)
    assert "step agree is waiting for an approval: Send it?" in output
    assert "APPROVAL_REQUESTED" in output
    as_json = json.loads(statewright("runs", "show", mail, "--json", "--events", 2).out)
    assert [event["eventType"] for event in as_json["events"]] == ["APPROVAL_REQUESTED", "WORKFLOW_PAUSED"]
    assert [step["stepName"] for step in as_json["stepRuns"]] == ["greet", "rest", "agree"]


def test_an_unknown_field_of_the_input_is_an_error_with_a_suggestion(statewright: Command) -> None:
    before = statewright("runs", "ls", "--json").out
    for more in ((), ("--wait",)):
        result = statewright("runs", "start", "doubling", "--input", "txet=four", *more)
        assert (result.code, len(result.err.splitlines())) == (2, 1)
        assert "unknown key 'txet'. Did you mean 'text'?" in result.err
    assert statewright("runs", "ls", "--json").out == before


def test_a_run_is_shown_with_its_worker_while_it_is_being_advanced(statewright: Command, tmp_path: Path) -> None:
    release = tmp_path / "release"
    run = start(statewright, "holding", "--input", f"text={release}")
    try:
        while not (line := re.search(r"^worker +(\S.*)$", statewright("runs", "show", run).out, re.M)):
            time.sleep(0.02)
        assert line[1].endswith(f" on {socket.gethostname()}")
        assert line[1].startswith("wrk_")
    finally:
        release.touch()
    assert statewright("runs", "watch", run).code == 0
    assert not re.search(r"^worker ", statewright("runs", "show", run).out, re.M)


def test_the_logs_of_steps_are_shown(statewright: Command) -> None:
    run = start(statewright, "doubling", "-i", "n=1")
    statewright("runs", "watch", run)
    lines = statewright("runs", "logs", run).out.splitlines()
    assert [line.split()[1:] for line in lines] == [
        ["double#1", "stdout", "doubling"],
        ["double#1", "warning", "careful"],
    ]
    records = [
        json.loads(line) for line in statewright("runs", "logs", run, "--step", "double", "--json").out.splitlines()
    ]
    assert [record["message"] for record in records] == ["doubling", "careful"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "run_x"), "Run 'run_x' does not exist in this workspace."),
        (("start", "dubling"), "Did you mean 'doubling'?"),
        (("start",), "Specify either the name of a graph"),
        (("start", "doubling", "--definition", "def_1"), "Specify either the name of a graph"),
        (("approve", "x", "--reject", "--edit", "1"), "Use only one of --reject"),
        (("approve", "run_x", "--edit", "@none"), "Run 'run_x' does not exist"),
        (("resume", "run_x"), "Run 'run_x' does not exist"),
    ],
)
def test_usage_errors_of_runs_exit_with_2_and_print_one_sentence(
    statewright: Command, words: tuple[str, ...], message: str
) -> None:
    result = statewright("runs", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_definitions_are_checked_before_they_are_sent_to_the_server(statewright: Command, tmp_path: Path) -> None:
    body = {"name": "x", "version": "1", "steps": [{"name": "a", "type": "task"}, {"name": "b", "type": "wait"}]}
    (tmp_path / "bad.json").write_text(json.dumps(body), encoding="utf-8")
    for command in ("check", "add"):
        result = statewright("definitions", command, "bad.json")
        assert result.code == 2
        assert result.err.startswith("Error: bad.json has ")
    assert "'handler' is missing" in result.err


def test_the_server_reports_a_handler_that_does_not_exist(statewright: Command, tmp_path: Path) -> None:
    body = {"name": "x", "version": "1", "steps": [{"name": "a", "type": "task", "handler": "gret"}]}
    (tmp_path / "bad.json").write_text(json.dumps(body), encoding="utf-8")
    assert statewright("definitions", "check", "bad.json").out == "ok: x 1, 1 step\n"
    result = statewright("definitions", "add", "bad.json")
    assert (result.code, "Did you mean 'greet'?" in result.err) == (2, True)


def test_definitions_are_listed_and_shown(statewright: Command, mail: str) -> None:
    listed = json.loads(statewright("definitions", "ls", "--json").out)
    (definition_id,) = [definition["id"] for definition in listed if definition["name"] == "mail"]
    assert definition_id in statewright("definitions", "ls").out
    assert json.loads(statewright("definitions", "show", definition_id).out)["name"] == "mail"
    assert json.loads(statewright("definitions", "show", definition_id, "--json").out)["version"] == "1"
