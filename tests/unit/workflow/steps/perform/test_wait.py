"""Waits, asked of a runtime that has the answer."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from statewright.workflow.steps import StepResult
from statewright.workflow.steps.model import WaitStep
from statewright.workflow.steps.perform import perform_wait


def test_it_waits_and_answers_nothing() -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    for step, delay, until in (
        (WaitStep(type="wait", name="w", duration_ms=1500), 1.5, None),
        (WaitStep(type="wait", name="w", until_timestamp=instant), None, instant),
    ):
        asked: list[Any] = []
        execution = SimpleNamespace(wait_for=lambda question, _, asked=asked: asked.append(question))
        assert perform_wait(step, cast(Any, execution)) == StepResult()
        assert (asked[0].is_timer, asked[0].delay, asked[0].until) == (True, delay, until)
