"""`statewright threads`: listing, showing and changing threads."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from statewright.checkpoint import LeaseRequest
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DEFAULT_DATABASE
from statewright.cli.threads.edit import pluralize, read_duration
from statewright.cli.threads.show import diff_lines
from statewright.storage.sqlite import SqliteSaver

GRAPH = """
import operator
from dataclasses import dataclass
from typing import Annotated, TypedDict
from statewright import START, StateGraph, interrupt

@dataclass
class Point:
    x: int

class State(TypedDict, total=False):
    n: int
    notes: Annotated[list[str], operator.add]

class Typed(TypedDict, total=False):
    point: Point

def draft(state):
    return {"n": state.get("n", 0) + 1, "notes": ["drafted"]}

def review(state):
    return {"notes": [f"verdict: {interrupt('publish?')}"]}

def place(state):
    return {"point": Point(3)}

graph = StateGraph(State).add_node(draft).add_node(review)
graph.add_edge(START, "draft").add_edge("draft", "review")
typed = StateGraph(Typed, name="typed").add_node(place).add_edge(START, "place")
"""


@pytest.fixture
def run(statewright: Any, folder: Path) -> Any:
    """Return a function that runs a graph on a thread."""
    (folder / "flow.py").write_text(GRAPH, encoding="utf-8")

    def call(thread: str = "t", target: str = "flow.py") -> Any:
        return statewright("run", target, "--thread", thread)

    return call


def steps(statewright: Any, thread: str = "t", *options: str) -> dict[int, str]:
    history = json.loads(statewright("threads", "history", thread, "--json", *options).out)
    return {entry["step"]: entry["checkpoint"] for entry in history}


def hold(thread: str = "t") -> None:
    with SqliteSaver(DEFAULT_DATABASE) as saver:
        now = datetime.now(UTC)
        saver.renew(thread, LeaseRequest("worker-1", now, now + timedelta(minutes=5), claims=True))


def test_threads_are_listed_with_their_status(statewright: Any, run: Any) -> None:
    run("a")
    run("b")
    statewright("resume", "b", "flow.py", "--answer", "yes")
    run("c", "flow.py:typed")  # with a type that the command does not know
    hold("c")
    listed = statewright("threads", "ls")
    assert (listed.code, listed.err) == (0, "")
    rows = [line.split()[:4] for line in listed.out.splitlines()]
    assert [row[:2] for row in rows] == [["THREAD", "STATUS"], ["c", "running"], ["b", "completed"], ["a", "waiting"]]
    assert rows[3] == ["a", "waiting", "1", "review"]
    listed = json.loads(statewright("threads", "ls", "--prefix", "a", "--json").out)
    assert [(entry["thread"], entry["status"], entry["step"], entry["next"]) for entry in listed] == [
        ("a", "waiting", 1, ["review"])
    ]
    assert len(json.loads(statewright("threads", "ls", "--limit", "2", "--json").out)) == 2
    assert statewright("threads", "ls", "--prefix", "zz").out == "No thread ids start with 'zz'.\n"
    for thread in "abc":
        assert statewright("threads", "rm", thread, "--force").code == 0
    assert statewright("threads", "ls").out == "There are no threads.\n"
    assert statewright("threads", "ls", "--json").out == "[]\n"


def test_a_thread_is_shown_with_values_questions_and_branches(statewright: Any, run: Any) -> None:
    run()
    text = statewright("threads", "show", "t").out
    assert re.search(r"^status +waiting$", text, re.M)
    assert re.search(r"^next +review$", text, re.M)
    assert re.search(r"^held by +no run$", text, re.M)
    assert re.search(r"^waits for +[0-9a-f]{32}  'publish\?'$", text, re.M)
    assert json.loads(text.partition("values\n")[2]) == {"n": 1, "notes": ["drafted"]}
    record = json.loads(statewright("threads", "show", "t", "--json").out)
    assert record["values"] == {"n": 1, "notes": ["drafted"]}
    assert (record["status"], record["next"], record["branches"], record["lease"]) == (
        "waiting",
        ["review"],
        ["main"],
        None,
    )
    assert [(question["kind"], question["value"]) for question in record["questions"]] == [("question", "publish?")]
    first = json.loads(statewright("threads", "show", "t", "--step", "0", "--json").out)
    assert (first["step"], first["next"], first["source"]) == (0, ["draft"], "input")
    same = json.loads(statewright("threads", "show", "t", "--checkpoint", first["checkpoint"], "--json").out)
    assert same == first
    hold()
    assert "run worker-1, until" in statewright("threads", "show", "t").out
    assert json.loads(statewright("threads", "show", "t", "--json").out)["lease"]["owner"] == "worker-1"


def test_the_history_is_newest_first_with_complete_ids(statewright: Any, run: Any) -> None:
    run()
    statewright("resume", "t", "flow.py", "--answer", "yes")
    lines = statewright("threads", "history", "t").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "1", "0"]
    ids = steps(statewright)
    assert all(ids[2 - index] in line for index, line in enumerate(lines[1:]))
    assert "BRANCH" not in lines[0]
    statewright("threads", "fork", "t", "--step", "1", "--branch", "other")
    assert "BRANCH" in statewright("threads", "history", "t").out
    assert len(steps(statewright, "t", "--branch", "main")) == 3
    assert list(steps(statewright, "t", "--branch", "other")) == [2, 1, 0]
    assert list(steps(statewright, "t", "--branch", "main", "--limit", "1")) == [2]
    history = json.loads(statewright("threads", "history", "t", "--json", "--branch", "main").out)
    assert [entry["values"]["notes"] for entry in history] == [["drafted", "verdict: yes"], ["drafted"], []]


def test_a_diff_is_shown_line_by_line(statewright: Any, run: Any) -> None:
    run()
    statewright("resume", "t", "flow.py", "--answer", "yes")
    text = statewright("threads", "diff", "t", "1", "2").out
    assert "\x1b" not in text
    assert text.partition("\n\n")[2].splitlines() == [
        "notes",
        "   [",
        '  -  "drafted"',
        '  +  "drafted",',
        '  +  "verdict: yes"',
        "   ]",
    ]
    ids = steps(statewright)
    record = json.loads(statewright("threads", "diff", "t", ids[0], ids[1], "--json").out)
    assert record["values"] == {"n": {"after": 1}, "notes": {"before": [], "after": ["drafted"]}}
    assert (record["before"]["step"], record["after"]["next"]) == (0, ["review"])
    assert "The values are equal." in statewright("threads", "diff", "t", "1", "1").out


def test_a_diff_on_a_terminal_is_coloured(statewright: Any, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in statewright("threads", "diff", "t", "0", "1").out


@pytest.mark.parametrize(
    ("was", "now", "lines"),
    [
        ([1], [1.0], ["-1", "+1.0"]),
        ([], ["a"], ['+"a"']),
        (["a"], [], ['-"a"']),
        ([list(range(9))], [[*range(8), 9]], ["...", "   6,", "   7,", "-  8", "+  9", " ]"]),
    ],
)
def test_diff_lines_of_a_value(was: list[Any], now: list[Any], lines: list[str]) -> None:
    assert diff_lines(was, now) == lines


def test_a_fork_is_independent(statewright: Any, run: Any) -> None:
    run()
    statewright("resume", "t", "flow.py", "--answer", "yes")
    forked = statewright("threads", "fork", "t", "--step", "1", "--branch", "other", "--database", DEFAULT_DATABASE)
    assert forked.code == 0
    command = forked.out.splitlines()[-1].partition("statewright ")[2]
    assert command == f"resume t FILE.py --database {DEFAULT_DATABASE} --branch other"
    result = statewright("resume", "t", "flow.py", "--branch", "other", "--answer", "no")
    assert json.loads(result.out)["notes"] == ["drafted", "verdict: no"]
    main = json.loads(statewright("threads", "show", "t", "--json").out)
    assert main["values"]["notes"] == ["drafted", "verdict: yes"]
    refused = statewright("threads", "fork", "t", "--branch", "other")
    assert (refused.code, "already has a branch 'other'" in refused.err) == (2, True)
    assert statewright("threads", "fork", "t", "--from", "other", "--branch", "third").code == 0
    assert json.loads(statewright("threads", "show", "t", "--json").out)["branches"] == ["main", "other", "third"]


def test_a_fork_keeps_the_version_and_unknown_types(statewright: Any, run: Any, folder: Path) -> None:
    (folder / "flow.py").write_text(GRAPH.replace('name="typed"', 'version="7"'), encoding="utf-8")
    run("t", "flow.py:typed")
    assert statewright("threads", "fork", "t", "--branch", "other").code == 0
    record = json.loads(
        statewright("threads", "show", "t", "--branch", "other", "--graph", "flow.py:typed", "--json").out
    )
    assert (record["graph_version"], record["values"]) == ("7", {"point": {"x": 3}})


def test_old_checkpoints_are_pruned(statewright: Any, run: Any) -> None:
    run("t", "flow.py:typed")
    run("u")
    assert statewright("threads", "prune", "--keep", "1", "--dry-run").out == (
        "Would delete 2 checkpoints of 2 threads.\n"
    )
    assert statewright("threads", "prune", "t", "--keep", "1").out == "Deleted 1 checkpoint of 1 thread.\n"
    assert statewright("threads", "prune", "--since", "1h").out == "Deleted 0 checkpoints of 0 threads.\n"
    assert len(steps(statewright, "u")) == 2
    assert statewright("threads", "prune", "--since", "0s").out == "Deleted 1 checkpoint of 1 thread.\n"
    record = json.loads(statewright("threads", "show", "t", "--graph", "flow.py:typed", "--json").out)
    assert record["values"] == {"point": {"x": 3}}
    assert statewright("resume", "u", "flow.py", "--answer", "yes").code == 0


def test_a_copy_is_independent(statewright: Any, run: Any) -> None:
    run()
    assert statewright("threads", "copy", "t", "u").code == 0
    assert statewright("resume", "u", "flow.py", "--answer", "yes").code == 0
    assert json.loads(statewright("threads", "show", "t", "--json").out)["status"] == "waiting"
    for new, message in (("u", "Thread 'u' already exists"), ("", "is empty")):
        result = statewright("threads", "copy", "t", new)
        assert (result.code, message in result.err) == (2, True)


def test_a_held_thread_is_only_removed_with_force(statewright: Any, run: Any) -> None:
    run()
    hold()
    refused = statewright("threads", "rm", "t")
    assert (refused.code, "run worker-1" in refused.err) == (2, True)
    assert statewright("threads", "rm", "t", "--force").code == 0
    gone = statewright("threads", "rm", "t")
    assert (gone.code, "SW-checkpoint-not-found" in gone.err) == (2, True)


def test_a_thread_is_exported_and_imported(statewright: Any, run: Any, folder: Path) -> None:
    run()
    statewright("threads", "fork", "t", "--step", "0", "--branch", "other")
    assert (
        statewright("threads", "export", "t", "t.thread").out == "Exported thread 't' with 3 checkpoints to t.thread.\n"
    )
    assert [path.name for path in folder.glob("*t.thread*")] == ["t.thread"]
    assert statewright("threads", "import", "t.thread", "--database", "new.db").code == 0
    before, after = (
        json.loads(statewright("threads", "history", "t", "--json", "--database", path).out)
        for path in (DEFAULT_DATABASE, "new.db")
    )
    assert after == before
    assert statewright("resume", "t", "flow.py", "--answer", "yes", "--database", "new.db").code == 0
    refused = statewright("threads", "import", "t.thread")
    assert (refused.code, "Thread 't' already exists" in refused.err) == (2, True)
    assert statewright("threads", "import", "t.thread", "--as", "u").code == 0
    existing = statewright("threads", "export", "t", "t.thread")
    assert (existing.code, "--force" in existing.err) == (2, True)
    assert statewright("threads", "export", "t", "t.thread", "--force").code == 0
    several = statewright("threads", "import", DEFAULT_DATABASE, "--database", "new.db")
    assert (several.code, "contains 2 threads" in several.err) == (2, True)


def test_user_defined_types_need_the_graph(statewright: Any, run: Any, folder: Path) -> None:
    run("t", "flow.py:typed")
    graph = ("--graph", "flow.py:typed")
    for command in (
        ("show", "t"),
        ("history", "t", "--json"),
        ("diff", "t", "0", "1"),
        ("export", "t", "t.thread"),
    ):
        refused = statewright("threads", *command)
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert "flow.Point" in refused.err
        assert "with --graph FILE.py. [SW-serde-error]" in refused.err
        assert statewright("threads", *command, *graph).code == 0
    assert statewright("threads", "history", "t").code == 0  # shows no values
    assert [path.name for path in folder.glob("*t.thread*")] == ["t.thread"]
    refused = statewright("threads", "import", "t.thread", "--as", "u")
    assert (refused.code, "--graph FILE.py" in refused.err) == (2, True)
    assert len(json.loads(statewright("threads", "ls", "--json").out)) == 1
    assert statewright("threads", "import", "t.thread", "--as", "u", *graph).code == 0


def test_encrypted_threads_need_their_key(statewright: Any, run: Any, folder: Path) -> None:
    (folder / "key").write_text("ab" * 32, encoding="utf-8")
    (folder / "other").write_text("cd" * 32, encoding="utf-8")
    key = ("--database", "e.db", "--key-file", "key")
    waiting = statewright("run", "flow.py", "--thread", "t", *key)
    assert "--database e.db --key-file key" in waiting.err
    assert "abab" not in waiting.err
    assert statewright("threads", "ls", *key).code == 0
    for wrong in ((), ("--key-file", "other")):
        refused = statewright("threads", "ls", "--database", "e.db", *wrong)
        assert (refused.code, "--key-file" in refused.err) == (2, True)
        assert "abab" not in refused.err
    assert statewright("threads", "export", "t", "t.thread", *key).code == 0
    assert b"drafted" not in (folder / "t.thread").read_bytes()
    assert statewright("threads", "import", "t.thread", "--as", "u", *key).code == 0
    assert statewright("threads", "import", "t.thread").code == 2
    run("plain")
    assert statewright("threads", "export", "plain", "p.thread").code == 0
    assert statewright("threads", "import", "p.thread", *key).code == 0
    assert statewright("resume", "u", "flow.py", "--answer", "1", *key).code == 0


@pytest.mark.parametrize("command", ["ls", "show t", "history t", "diff t 0 1", "copy t u", "rm t", "prune --keep 1"])
def test_a_missing_database_is_reported(statewright: Any, folder: Path, command: str) -> None:
    result = statewright("threads", *command.split(), "--database", "none.db")
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert "Database 'none.db' does not exist" in result.err
    assert not (folder / "none.db").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("show x", "Thread 'x' does not exist"),
        ("history x", "Thread 'x' does not exist"),
        ("history t --branch x", "no branch 'x'"),
        ("diff t 0 9", "no step 9"),
        ("diff t 0 abc", "no checkpoint 'abc'"),
        ("fork t --branch b --step 9", "no step 9"),
        ("prune t", "--keep N or --since"),
        ("prune x --keep 1", "Thread 'x' does not exist"),
        ("prune --since soon", "not a duration"),
        ("copy x y", "Thread 'x' does not exist"),
        ("export x f", "Thread 'x' does not exist"),
        ("export t no/f", "The folder 'no' for the file does not exist"),
        ("import none", "File 'none' does not exist"),
    ],
)
def test_usage_errors_are_one_sentence_and_exit_with_2(statewright: Any, run: Any, command: str, message: str) -> None:
    run()
    result = statewright("threads", *command.split())
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert result.err.startswith("Error: ")
    assert message in result.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1.5h", 5400), ("7d", 604_800), ("1d12h", 129_600), ("1w", 604_800)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "d", "5y", "-5d", "1.5.2d", "9999999999w"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_duration(text)


def test_counts() -> None:
    assert [pluralize(count, "thread") for count in (0, 1, 2)] == ["0 threads", "1 thread", "2 threads"]


NETWORK = """
from statewright.agents import Agent, Network
from statewright.models import ScriptedModel

writer = Agent("Writer", system="Write.", model=ScriptedModel(["a line"]))
critic = Agent("Critic", system="Judge.", model=ScriptedModel(["yes"]))
order = iter([writer, critic, None])
network = Network("poem", agents=[writer, critic], router=lambda: next(order))
"""


@pytest.mark.parametrize("options", [(), ("--limit", "4")])
def test_the_history_of_a_network_names_the_agents(statewright: Any, folder: Path, options: tuple[str, ...]) -> None:
    (folder / "poem.py").write_text(NETWORK, encoding="utf-8")
    assert statewright("run", "poem.py", "--input", "Hello", "--thread", "t").code == 0
    lines = statewright("threads", "history", "t", *options).out.splitlines()[1:]
    assert [line.count("agent (Critic)") for line in lines][:4] == [0, 1, 1, 0]
    assert [line.count("agent (Writer)") for line in lines][:4] == [0, 0, 0, 1]
    assert len(lines) == (4 if options else 6)
