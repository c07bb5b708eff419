"""Tasks: a function of the user's is called.

A handler that answers `waiting` has done its part. What it answered is kept in the question, and when the timer or
the signal comes the step is completed with that, without calling the handler again.
"""

from __future__ import annotations

from typing import Any

from statewright.checkpoint import Interrupt
from statewright.workflow.steps.execution import Execution
from statewright.workflow.steps.handlers import Handler, takes_step
from statewright.workflow.steps.model import TaskStep
from statewright.workflow.steps.pausing import Question
from statewright.workflow.steps.plain import plain
from statewright.workflow.steps.result import StepResult, read_result
from statewright.workflow.steps.signals import unfit_payload


class TaskPerformer:
    """Calls a plain function."""

    def __init__(self, step: TaskStep, handler: Handler) -> None:
        self._step = step
        self._handler = handler
        self._takes_step = takes_step(handler)

    def perform(self, execution: Execution) -> StepResult:
        asked = execution.asked_before()
        if asked is not None:
            return _completed(execution, asked)
        return _ended_or_waiting(execution, self._called(execution))

    def _called(self, execution: Execution) -> Any:
        context = execution.context(self._step.config)
        return self._handler(context, self._step) if self._takes_step else self._handler(context)


class AwaitedTaskPerformer(TaskPerformer):
    """Calls a coroutine function."""

    async def perform(self, execution: Execution) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        asked = execution.asked_before()
        if asked is not None:
            return _completed(execution, asked)
        return _ended_or_waiting(execution, await self._called(execution))


def _ended_or_waiting(execution: Execution, answer: Any) -> StepResult:
    """The result of a handler; leaves the node if it wants to wait."""
    result = read_result(answer, execution.step.name)
    if result.status != "waiting":
        return result
    kept = {"type": "task", "output": result.output, "stateUpdates": result.state_updates}
    question = Question(
        plain(kept, f"The result of step {execution.step.name!r}"),
        signal=result.signal_type,
        is_timer=result.signal_type is None,
        until=result.wait_until,
    )
    return _merged(question.value, execution.wait_for(question, unfit_payload))


def _completed(execution: Execution, asked: Interrupt) -> StepResult:
    """The result of a step that has waited; leaves the node if it still waits, or was given what is no payload."""
    question = Question(asked.value, signal=asked.event, is_timer=asked.kind == "timer", until=asked.due_at)
    return _merged(asked.value, execution.wait_for(question, unfit_payload))


def _merged(kept: Any, payload: Any) -> StepResult:
    """What the handler had answered before it waited, with what came."""
    updates: dict[str, Any] = {**(kept["stateUpdates"] or {}), **(payload or {})}
    return StepResult("completed", output=kept["output"] or payload or None, state_updates=updates)
