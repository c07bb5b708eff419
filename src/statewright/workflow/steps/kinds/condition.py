"""Conditions: a value of the state decides which of two steps follows."""

from __future__ import annotations

from statewright.workflow.steps.condition import holds
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.model import ConditionStep
from statewright.workflow.steps.result import NEXT_STEP, StepResult


def result_key(step: str) -> str:
    """The field of the state that keeps which way a condition took."""
    return f"__condition_{step}"


class ConditionPerformer:
    """Takes one of two ways, and keeps in the state which."""

    def __init__(self, step: ConditionStep) -> None:
        self._step = step

    def perform(self, execution: Execution) -> StepResult:
        step, is_so = self._step, holds(self._step.expression, execution.state)
        target = step.true_step if is_so else step.false_step
        updates = {result_key(step.name): is_so, NEXT_STEP: target}
        return StepResult(output={"result": is_so, "nextStep": target}, state_updates=updates)
