"""External events, with a fake runtime that returns the answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.workflow.steps import StepFailed, StepResult
from statewright.workflow.steps.model import ExternalEventStep
from statewright.workflow.steps.perform import perform_external_event

STEP = ExternalEventStep(type="external_event", name="e", signal_type="paid", timeout_ms=250)


def perform(answer: Any) -> StepResult:
    requests: list[Any] = []
    result = perform_external_event(
        STEP, cast(Any, SimpleNamespace(wait_for=lambda request, _: requests.append(request) or answer))
    )
    assert (requests[0].signal, requests[0].delay, requests[0].is_timer) == ("paid", 0.25, False)
    return result


def test_the_payload_becomes_output_and_update() -> None:
    assert perform({"a": 1}) == StepResult(output={"a": 1}, state_updates={"a": 1})
    assert perform({}).state_updates == {}


def test_a_timeout_is_a_failure() -> None:
    with pytest.raises(StepFailed, match="received no signal 'paid' within 250 ms"):
        perform(None)
