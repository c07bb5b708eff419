"""The command lines that continue or inspect a saved run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statewright.checkpoint import Interrupt
from statewright.cli.console.saved_run import SavedRun
from statewright.ids import InterruptId

AT = datetime(2030, 1, 1, tzinfo=UTC)
A, B = InterruptId("a" * 32), InterruptId("b" * 32)
SAVED = SavedRun(thread="it's", target="flow.py:x", location_args=("--database", "my runs.db"))
RESUME = """statewright resume 'it'"'"'s' flow.py:x"""
END = "--database 'my runs.db'"


@pytest.mark.parametrize(
    ("interrupts", "lines"),
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
    interrupts: list[Interrupt], lines: list[str]
) -> None:
    assert SAVED.resume_commands(interrupts) == [f"{RESUME} {line} {END}" for line in lines]


def test_a_run_is_only_inspected_in_a_database_that_other_commands_can_open() -> None:
    assert SavedRun(thread="t", target="f.py").hint_lines("Go on:", ["x", "y"]) == [
        "Go on:",
        "  x",
        "  y",
        "Inspect it with:",
        "  statewright threads show t",
    ]
    assert SavedRun(thread="t", target="f.py", is_in_database=False).hint_lines("Go on:", ["x"]) == ["Go on:", "  x"]
