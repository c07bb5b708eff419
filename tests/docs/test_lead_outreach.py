"""The email to a lead: both forms, every decision, killed and resumed, and served."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests import programs
from tests.programs import Ended

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/lead_outreach"
DRAFT = "Hi Jane, we help teams like Acme Inc to spend less time on invoices. May I show you how?"
PATIENCE = 600.0
"""Seconds after which a test fails."""
FORMS = {
    "python": ("lead_name", "company", "email_draft", "sent_at", "message_id"),
    "json": ("leadName", "company", "emailDraft", "sentAt", "messageId"),
}
STEPS = ("enrich-lead", "draft-email", "review-draft", "send-email")
form = pytest.mark.parametrize("form", FORMS)


def command(folder: Path, *args: str) -> list[str]:
    return [sys.executable, str(EXAMPLE / "lead_outreach.py"), "--folder", str(folder / "out"), *args]


def example(folder: Path, *args: str, stdin: str = "") -> Ended:
    words = ("--folder", folder / "out", *args)
    return programs.script(EXAMPLE / "lead_outreach.py", *words, cwd=folder, stdin=stdin)


def output_of(result: Ended) -> dict[str, Any]:
    match = re.search(r"^Output: (.+)$", result.stdout, re.M)
    assert match is not None, result.stdout + result.stderr
    return json.loads(match[1])


def run_of(text: str) -> str:
    match = re.search(r"--run (\S+)", text)
    assert match is not None
    return match[1]


def changes_of(text: str) -> dict[str, tuple[Any, Any]]:
    """Return the state before and after each step."""
    changes = re.findall(r"^(\S+)\n  before  (.+)\n  after   (.+)$", text, re.M)
    return {step.replace("_", "-"): (json.loads(before), json.loads(after)) for step, before, after in changes}


def types_of(text: str) -> list[str]:
    """Return the types of the events, after checking that their numbers have no gaps."""
    events = re.findall(r"^ *(\d+) ([A-Z_]+)", text, re.M)
    assert [int(number) for number, _ in events] == list(range(1, len(events) + 1))
    return [kind for _, kind in events]


def letters(folder: Path) -> list[Mapping[str, Any]]:
    file = folder / "out/mailbox.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return [dict(row) for row in connection.execute("SELECT * FROM letters")]
        except sqlite3.OperationalError:  # it is being created
            return []


# -- from the lead to the email


@form
def test_the_states_match_the_documentation_of_the_steps(tmp_path: Path, form: str) -> None:
    result = example(tmp_path, "--form", form, "--decide", "approved")
    assert result.returncode == 0, result.stderr
    name, company, draft, sent_at, message_id = FORMS[form]
    changes = changes_of(result.stdout)
    assert tuple(changes) == STEPS
    enriched = {name: "Jane Smith", company: "Acme Inc"}
    drafted = {**enriched, draft: DRAFT}
    assert changes["enrich-lead"] == ({}, enriched)
    assert changes["draft-email"] == (enriched, drafted)
    decision = {"decision": "approved", "approved": True, "decidedBy": "Ann"}
    reviewed = drafted | ({"review-draft_decision": decision} if form == "json" else {})
    assert changes["review-draft"] == (drafted, reviewed)
    [letter] = letters(tmp_path)
    sent = {sent_at: letter["sent_at"], message_id: letter["id"]}
    assert changes["send-email"] == (reviewed, reviewed | sent)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", letter["sent_at"])
    assert (letter["recipient"], letter["text"], letter["requests"]) == ("jane@example.com", DRAFT, 1)


@form
def test_the_output_is_the_final_state_with_the_documented_fields(tmp_path: Path, form: str) -> None:
    result = example(tmp_path, "--form", form, "--decide", "approved")
    output = output_of(result)
    assert output == changes_of(result.stdout)["send-email"][1]
    # An approval in JSON adds its decision to the state; there must be no other fields.
    assert set(output) - {"review-draft_decision"} == set(FORMS[form])
    assert re.search(r"^Cost: 1 call, \d+ \+ \d+ tokens, \$0\.000\d+$", result.stdout, re.M)


@form
def test_the_events_report_every_step_and_the_approval(tmp_path: Path, form: str) -> None:
    events = types_of(example(tmp_path, "--form", form, "--decide", "approved").stdout)
    assert events == [
        "WORKFLOW_STARTED",
        *("STEP_STARTED", "STEP_COMPLETED"),
        *("STEP_STARTED", "LLM_CALL_COMPLETED", "STEP_COMPLETED"),
        *("STEP_STARTED", "STEP_WAITING", "APPROVAL_REQUESTED", "WORKFLOW_PAUSED"),
        *("APPROVAL_DECIDED", "SIGNAL_RECEIVED", "WORKFLOW_RESUMED", "STEP_COMPLETED"),
        *("STEP_STARTED", "STEP_COMPLETED"),
        "WORKFLOW_COMPLETED",
    ]


# -- decisions


@form
def test_an_edited_email_is_the_one_that_is_sent(tmp_path: Path, form: str) -> None:
    result = example(tmp_path, "--form", form, "--decide", "edited", "--text", "Hi Jane, shall we talk?")
    assert result.returncode == 0, result.stderr
    assert output_of(result)[FORMS[form][2]] == "Hi Jane, shall we talk?"
    assert [letter["text"] for letter in letters(tmp_path)] == ["Hi Jane, shall we talk?"]


@form
def test_a_rejected_email_is_not_sent_and_the_run_reports_the_reason(tmp_path: Path, form: str) -> None:
    result = example(tmp_path, "--form", form, "--decide", "rejected")
    assert result.returncode == 1
    assert types_of(result.stdout)[-1] == "WORKFLOW_FAILED"
    assert '"code": "APPROVAL_REJECTED"' in result.stdout
    assert re.search(r"^The run is failed: .*rejected.* by Ann\.$", result.stdout, re.M)
    assert letters(tmp_path) == []


@form
def test_a_decision_can_be_left_to_another_process(tmp_path: Path, form: str) -> None:
    first = example(tmp_path, "--form", form, "--decide", "later")
    assert first.returncode == 3, first.stderr
    assert "The run is waiting." in first.stdout
    second = example(tmp_path, "--run", run_of(first.stdout), "--decide", "approved")
    assert second.returncode == 0, second.stderr
    assert types_of(second.stdout)[: len(types_of(first.stdout))] == types_of(first.stdout)
    assert types_of(second.stdout).count("LLM_CALL_COMPLETED") == 1
    assert len(letters(tmp_path)) == 1


@pytest.mark.parametrize(
    ("stdin", "code", "text"), [("a\n", 0, DRAFT), ("Hello!\n", 0, "Hello!"), ("\n", 3, None), ("", 3, None)]
)
def test_the_decision_is_requested_at_the_terminal(tmp_path: Path, stdin: str, code: int, text: str | None) -> None:
    result = example(tmp_path, "--form", "json", stdin=stdin)
    assert result.returncode == code, result.stderr
    assert "Send this to Jane Smith?" in result.stdout
    assert [letter["text"] for letter in letters(tmp_path)] == ([text] if text is not None else [])


# -- errors


@form
def test_an_invalid_address_fails_the_run_before_a_model_is_called(tmp_path: Path, form: str) -> None:
    result = example(tmp_path, "--form", form, "--email", "nobody")
    assert result.returncode == 1
    assert "'nobody' is not the email address of a person." in result.stdout
    assert "LLM_CALL_COMPLETED" not in types_of(result.stdout)
    assert types_of(result.stdout).count("STEP_STARTED") == 1


def test_an_unknown_run_is_reported_in_one_line(tmp_path: Path) -> None:
    result = example(tmp_path, "--run", "run_nowhere")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert "run_nowhere" in result.stderr


def test_an_edit_without_a_text_is_a_usage_error(tmp_path: Path) -> None:
    assert example(tmp_path, "--decide", "edited").returncode == 2


# -- killed processes


def output_until_killed(folder: Path, *args: str, when: Callable[[str], bool]) -> str:
    """Kill a process as soon as its output fulfils a condition, and return the output."""
    output = folder / "output.txt"
    with (
        output.open("w", encoding="utf-8") as file,
        subprocess.Popen(command(folder, *args), cwd=folder, stdout=file, text=True) as process,
    ):
        until = time.monotonic() + PATIENCE
        is_over = False
        while not when(output.read_text(encoding="utf-8")):
            assert not is_over
            assert time.monotonic() < until
            is_over = process.poll() is not None
            time.sleep(0.005)
        process.kill()
    return output.read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["python", pytest.param("json", marks=pytest.mark.full)])
def test_a_letter_sent_just_before_the_process_was_killed_is_not_sent_again(tmp_path: Path, form: str) -> None:
    first = output_until_killed(
        tmp_path, "--form", form, "--decide", "approved", "--pace", "3", when=lambda _: bool(letters(tmp_path))
    )
    assert "WORKFLOW_COMPLETED" not in first
    [before] = letters(tmp_path)
    second = example(tmp_path, "--run", run_of(first))
    assert second.returncode == 0, second.stderr
    [after] = letters(tmp_path)
    assert after == {**before, "requests": 2}
    output = output_of(second)
    assert [output[name] for name in FORMS[form][3:]] == [before["sent_at"], before["id"]]
    assert types_of(second.stdout).count("STEP_STARTED") == 4
    assert types_of(second.stdout).count("WORKFLOW_COMPLETED") == 1


@pytest.mark.parametrize(
    ("form", "event"),
    [
        ("json", "STEP_STARTED"),
        ("python", "LLM_CALL_COMPLETED"),
        ("json", "APPROVAL_REQUESTED"),
        *(
            pytest.param(*case, marks=pytest.mark.full)
            for case in [("python", "STEP_STARTED"), ("json", "LLM_CALL_COMPLETED"), ("python", "APPROVAL_REQUESTED")]
        ),
    ],
)
def test_a_killed_run_continues_and_repeats_nothing_that_was_saved(tmp_path: Path, form: str, event: str) -> None:
    first = output_until_killed(
        tmp_path, "--form", form, "--decide", "later", "--pace", "0.3", when=lambda output: event in types_of(output)
    )
    second = example(tmp_path, "--run", run_of(first), "--decide", "approved")
    assert second.returncode == 0, second.stderr
    events = types_of(second.stdout)
    assert events[: len(types_of(first))] == types_of(first)
    assert events.count("LLM_CALL_COMPLETED") == 1
    assert events.count("STEP_COMPLETED") == 4
    assert [letter["requests"] for letter in letters(tmp_path)] == [1]


# -- served


@pytest.mark.parametrize(
    ("file", "run_input"),
    [
        ("graph.py", {"lead_email": "li@example.org"}),
        pytest.param("steps.py", {"leadEmail": "li@example.org"}, marks=pytest.mark.full),
    ],
)
def test_the_example_can_be_served_and_approved_on_the_command_line(tmp_path: Path, file: str, run_input: Any) -> None:
    output, name = tmp_path / "output.txt", Path(file).stem
    options = ("--port", "0", "--database", "runs.db", "--no-reload")
    environment = {**os.environ, "OUTREACH_FOLDER": "out"}
    with (
        output.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [sys.executable, "-m", "statewright", "dev", str(EXAMPLE / file), *options],
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            env=environment,
        ) as server,
    ):
        try:
            url = server_url(output)
            waits = programs.statewright(
                "runs", "start", name, "--input", json.dumps(run_input), "--wait", "--url", url
            )
            assert waits.returncode == 3, waits.stdout + waits.stderr
            run = re.search(r"run_\w+", waits.stdout + waits.stderr)
            assert run is not None
            decided = programs.statewright("runs", "approve", run[0], "--by", "Ann", "--url", url)
            assert decided.returncode == 0, decided.stdout + decided.stderr
            assert programs.statewright("runs", "watch", run[0], "--url", url).returncode == 0
        finally:
            server.terminate()
        assert server.wait(PATIENCE) == 0
    [letter] = letters(tmp_path)
    assert (letter["recipient"], letter["requests"]) == ("li@example.org", 1)
    assert letter["text"].startswith("Hi Li, we help teams like Kite Works")


def server_url(output: Path) -> str:
    """Wait for the URL in the output of the server."""
    until = time.monotonic() + PATIENCE
    while (match := re.search(r"http://127\.0\.0\.1:\d+", output.read_text(encoding="utf-8"))) is None:
        assert time.monotonic() < until, output.read_text(encoding="utf-8")
        time.sleep(0.02)
    return match[0]


# -- documents


def test_the_readme_shows_the_drawing_of_the_graph(tmp_path: Path) -> None:
    drawing = programs.statewright("draw", EXAMPLE / "graph.py", "--format", "mermaid", cwd=tmp_path)
    assert f"```mermaid\n{drawing.stdout.strip()}\n```" in (EXAMPLE / "README.md").read_text(encoding="utf-8")
