"""The transitions of the status of runs and of steps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from statewright.errors import InvalidTransition
from statewright.runs import RunStatus, StepStatus, check_transition

RUNS = """
PENDING -> RUNNING, CANCELLED
RUNNING -> WAITING, PAUSED, COMPLETED, FAILED, CANCELLED
WAITING -> RUNNING, CANCELLED, FAILED
PAUSED -> RUNNING, CANCELLED
FAILED -> RUNNING
COMPLETED ->
CANCELLED ->
"""
STEPS = """
PENDING -> RUNNING, SKIPPED, CANCELLED
RUNNING -> WAITING, COMPLETED, FAILED, CANCELLED
WAITING -> RUNNING, COMPLETED, FAILED, CANCELLED
FAILED -> RUNNING
COMPLETED ->
SKIPPED ->
CANCELLED ->
"""


def parse(table: str) -> set[tuple[str, str]]:
    transitions: set[tuple[str, str]] = set()
    for line in table.strip().splitlines():
        before, _, after = line.partition("->")
        transitions.update((before.strip(), name.strip()) for name in after.split(",") if name.strip())
    return transitions


@pytest.mark.parametrize(("kind", "table"), [(RunStatus, RUNS), (StepStatus, STEPS)])
def test_exactly_the_transitions_of_the_table_are_allowed(kind: Any, table: str) -> None:
    allowed = parse(table)
    for before, after in itertools.product(kind, kind):
        if (before.name, after.name) in allowed:
            assert check_transition("run r", before, after) is after
            continue
        with pytest.raises(InvalidTransition) as refused:
            check_transition("run r", before, after)
        assert (refused.value.status, refused.value.api_code) == (409, "INVALID_TRANSITION")


def test_a_refused_transition_names_the_allowed_ones() -> None:
    with pytest.raises(InvalidTransition, match=r"run 7 is paused, and cannot become failed\. .* cancelled, running"):
        check_transition("run 7", RunStatus.PAUSED, RunStatus.FAILED)
    with pytest.raises(InvalidTransition, match="That status is final"):
        check_transition("step 1 of run 7", StepStatus.SKIPPED, StepStatus.RUNNING)


def test_statuses_have_the_names_of_the_command_line_and_the_api() -> None:
    assert {str(status) for status in RunStatus} == {
        "pending", "running", "waiting", "paused", "completed", "failed", "cancelled",
    }  # fmt: skip
