"""External events, asked of a runtime that has the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.workflow.steps import StepFailed, StepResult
from statewright.workflow.steps.model import ExternalEventStep
from statewright.workflow.steps.perform import perform_external_event

STEP = ExternalEventStep(type="external_event", name="e", signal_type="paid", timeout_ms=250)


def perform(answer: Any) -> StepResult:
    asked: list[Any] = []
    result = perform_external_event(
        STEP, cast(Any, SimpleNamespace(wait_for=lambda question, _: asked.append(question) or answer))
    )
    assert (asked[0].signal, asked[0].delay, asked[0].is_timer) == ("paid", 0.25, False)
    return result


def test_the_payload_is_output_and_update() -> None:
    assert perform({"a": 1}) == StepResult(output={"a": 1}, state_updates={"a": 1})
    assert perform({}).state_updates == {}


def test_nothing_in_time_is_a_failure() -> None:
    with pytest.raises(StepFailed, match="received no signal 'paid' within 250 ms"):
        perform(None)
