"""Results of steps, and their updates of the state."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.workflow.steps.result import StepFailure, StepResult, read_result


def test_updates_are_merged_shallowly() -> None:
    state = {"a": {"x": 1, "y": 2}, "b": 1}
    assert StepResult(state_updates={"a": {"x": 9}, "c": None}).merged_into(state) == {"a": {"x": 9}, "b": 1, "c": None}
    assert state == {"a": {"x": 1, "y": 2}, "b": 1}


def test_the_output_is_not_merged_into_the_state() -> None:
    assert StepResult(output={"o": 1}).merged_into({"b": 1}) == {"b": 1}


@pytest.mark.parametrize("status", ["failed", "waiting"])
def test_only_a_completed_step_changes_the_state(status: Any) -> None:
    result = StepResult(status, state_updates={"a": 1, "__nextStep": "x"}, signal_type="s")
    assert result.merged_into({}) == {}
    assert result.next_step is None


def test_the_next_step_is_not_stored_in_the_state() -> None:
    result = StepResult(state_updates={"__condition_good": True, "__nextStep": "send"})
    assert result.next_step == "send"
    assert result.merged_into({}) == {"__condition_good": True}


def test_results_of_handlers_are_read() -> None:
    assert read_result(None, "s") == StepResult()
    assert read_result(StepResult(output={"a": 1}), "s").output == {"a": 1}
    value = {
        "status": "waiting",
        "stateUpdates": {"a": 1},
        "waitUntil": "2026-01-02T03:04:05Z",
        "signalType": "paid",
        "output": None,
    }
    assert read_result(value, "s") == StepResult(
        "waiting", state_updates={"a": 1}, wait_until=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), signal_type="paid"
    )
    failed = read_result({"status": "failed", "error": {"message": "no", "code": "E1"}}, "s")
    assert failed.error == StepFailure("no", "E1")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("text", "returned 'text' of type str"),
        (3, "returned 3"),
        ({"state_updates": {}}, "key 'state_updates'. Did you mean 'stateUpdates'?"),
        ({"status": "done"}, "status 'done'"),
        ({"output": [1]}, "output of step 's' is [1]"),
        ({"stateUpdates": "x"}, "stateUpdates of step 's' is 'x'"),
        ({"status": "waiting"}, "nothing to wait for"),
        ({"status": "waiting", "waitUntil": "2026-01-02T03:04:05"}, "has no time zone"),
        ({"status": "waiting", "waitUntil": "tomorrow"}, "'waitUntil' as an ISO 8601 timestamp"),
        ({"status": "waiting", "waitUntil": 1767323045}, "Return a datetime"),
        (
            {"status": "failed", "error": {"message": "no", "reason": "x"}},
            "'reason'. Return 'error' as a map with the keys",
        ),
    ],
)
def test_invalid_results_are_rejected_with_the_name_of_the_step(answer: Any, message: str) -> None:
    with pytest.raises(InvalidUpdateError) as caught:
        read_result(answer, "s")
    assert message in str(caught.value)
    assert "'s'" in str(caught.value)
