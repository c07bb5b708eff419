"""Waits, with a fake runtime."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from statewright.workflow.steps import StepResult
from statewright.workflow.steps.model import WaitStep
from statewright.workflow.steps.perform import perform_wait


def test_a_wait_requests_a_timer_and_returns_no_updates() -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    for step, delay, until in (
        (WaitStep(type="wait", name="w", duration_ms=1500), 1.5, None),
        (WaitStep(type="wait", name="w", until_timestamp=instant), None, instant),
    ):
        requests: list[Any] = []
        execution = SimpleNamespace(wait_for=lambda request, _, requests=requests: requests.append(request))
        assert perform_wait(step, cast(Any, execution)) == StepResult()
        assert (requests[0].is_timer, requests[0].delay, requests[0].until) == (True, delay, until)
