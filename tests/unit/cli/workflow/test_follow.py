"""Messages about an idle run: its questions, and the commands that continue it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statewright.checkpoint import Interrupt
from statewright.cli.workflow.follow import SavedRun, format_question, resume_commands
from statewright.ids import InterruptId

AT = datetime(2030, 1, 1, tzinfo=UTC)
A, B = InterruptId("a" * 32), InterruptId("b" * 32)
SAVED = SavedRun(thread="it's", target="flow.py:x", args=("--database", "my runs.db"))
RESUME = """statewright resume 'it'"'"'s' flow.py:x"""
END = "--database 'my runs.db'"


@pytest.mark.parametrize(
    ("questions", "lines"),
    [
        ([Interrupt(id=A, value="?")], ["--answer VALUE"]),
        ([Interrupt(id=A, value="?"), Interrupt(id=B, value="?")], [f"--answer {A}=VALUE --answer {B}=VALUE"]),
        ([Interrupt(id=A, value="?", due_at=AT)], ["--answer VALUE", "--due"]),
        ([Interrupt(id=A, value=None, kind="timer", due_at=AT)], ["--due"]),
        ([Interrupt(id=A, value="paid", kind="event", event="paid")], ["--event paid=JSON"]),
        (
            [Interrupt(id=A, value="?"), Interrupt(id=B, value="x", kind="event", event="x", due_at=AT)],
            [f"--answer {A}=VALUE", "--event x=JSON", "--due"],
        ),
    ],
)
def test_each_kind_of_interrupt_has_a_command_that_continues_the_run(
    questions: list[Interrupt], lines: list[str]
) -> None:
    assert resume_commands(questions, SAVED) == [f"{RESUME} {line} {END}" for line in lines]


def test_a_question_is_one_line() -> None:
    assert format_question(Interrupt(id=A, value={"ok": "?\n"})) == f"{A}  {{'ok': '?\\n'}}"
    assert "  event 'paid'  until 20" in format_question(
        Interrupt(id=A, value="paid", kind="event", event="paid", due_at=AT)
    )
    assert "  due at 20" in format_question(Interrupt(id=A, value=None, kind="timer", due_at=AT))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statewright.cli.workflow.follow.is_interactive", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_hints_are_printed_for_users(statewright: Any, flow: Path) -> None:
    completed = statewright("run", "flow.py", "--thread", "t", "-i", "n=1")
    assert (completed.code, completed.err) == (0, "Inspect it with: statewright threads show t\n")
    failed = statewright("run", "flow.py:failing", "--thread", "u", "--database", "x.db")
    assert failed.err.splitlines()[1:] == [
        "  at flow.py:14 in fail",
        "Once that is fixed, continue with:",
        "  statewright resume u flow.py:failing --database x.db",
        "Inspect it with:",
        "  statewright threads show u --database x.db",
    ]
    assert statewright("run", "flow.py", "--database", "memory:", "-i", "n=1").err == ""


def test_no_hints_are_printed_for_programs(statewright: Any, flow: Path) -> None:
    assert not sys.stderr.isatty()
    assert statewright("run", "flow.py", "--thread", "t", "-i", "n=1").err == ""
    failed = statewright("run", "flow.py:failing", "--thread", "u").err.splitlines()
    assert failed == ["Error: ValueError: no luck (in node 'fail', step 1, attempt 1)", "  at flow.py:14 in fail"]
