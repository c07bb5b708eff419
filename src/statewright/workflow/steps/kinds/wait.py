"""Waits: time goes by, and nothing is held meanwhile."""

from __future__ import annotations

from typing import Any

from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.model import WaitStep
from statewright.workflow.steps.pausing import Question
from statewright.workflow.steps.result import StepResult


class WaitPerformer:
    """Lets a time go by, or an instant come. One that has gone by already does not stop the run for long."""

    def __init__(self, step: WaitStep) -> None:
        delay = step.duration_ms / 1000 if step.duration_ms is not None else None
        self._question = Question({"type": "wait"}, is_timer=True, delay=delay, until=step.until_timestamp)

    def perform(self, execution: Execution) -> StepResult:
        execution.wait_for(self._question, _anything)
        return StepResult()


def _anything(_: Any) -> None:
    return None
