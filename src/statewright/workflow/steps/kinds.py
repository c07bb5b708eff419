"""Which of two ways a condition takes: a path into the state, and whether its value is true in JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt
from statewright.errors import suggestion
from statewright.workflow.steps.execution import Execution, Question
from statewright.workflow.steps.handlers import Handler, takes_step
from statewright.workflow.steps.jsonable import plain
from statewright.workflow.steps.model import ApprovalStep, ConditionStep, ExternalEventStep, TaskStep, WaitStep
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult, read_result
from statewright.workflow.steps.template import render

_MISSING: Any = object()


def holds(expression: str, state: Mapping[str, Any]) -> bool:
    """Whether what a path leads to counts as true. What is not there does not."""
    value: Any = state
    for part in expression.strip().split("."):
        value = _under(value, part)
        if value is _MISSING:
            return False
    return is_true(value)


def _under(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(part, _MISSING)
    if isinstance(value, list) and part.isascii() and part.isdigit():
        items = cast("list[Any]", value)
        return items[int(part)] if int(part) < len(items) else _MISSING
    return _MISSING


def is_true(value: Any) -> bool:
    """Truth as JavaScript has it: null, false, 0, NaN and empty text are false; an empty list or map is true."""
    if isinstance(value, float) and value != value:
        return False
    return value not in (None, False, 0, "") if not isinstance(value, list | Mapping) else True


# -- What a signal may carry: a map that becomes part of the state, without the names that the engine keeps for itself.

RESERVED: Final = "__"
"""What keys of the engine begin with."""


def unfit_payload(payload: Any) -> str | None:
    """Why something is no payload of a signal; None if it is one."""
    if not isinstance(payload, Mapping):
        return f"The payload is a {type(payload).__name__}. Send a map."
    keys = cast("Mapping[Any, Any]", payload)
    reserved = next((key for key in keys if not isinstance(key, str) or key.startswith(RESERVED)), None)
    if reserved is None:
        return None
    return f"The payload has the key {reserved!r}. Keys are text that does not begin with {RESERVED!r}."


# -- Approvals: somebody agrees to what stands in a field of the state, refuses it, or changes it.
#
# What was decided is kept in the state, so that a condition can go by it.

DECISIONS: Final = ("approved", "rejected", "edited")


def decision_key(step: str) -> str:
    """The field of the state that keeps what was decided in a step."""
    return f"{step}_decision"


class ApprovalPerformer:
    """Asks for a decision, for a limited time if there is a limit."""

    def __init__(self, step: ApprovalStep) -> None:
        self._step = step

    def perform(self, execution: Execution) -> StepResult:
        answer = execution.wait_for(self._question(execution), unfit_decision)
        if answer is None:
            raise StepFailed(
                f"Nobody decided on {self._step.content_key!r} in step {self._step.name!r} within "
                f"{self._step.timeout_ms} ms.",
                code="APPROVAL_EXPIRED",
                details={"contentKey": self._step.content_key, "timeoutMs": self._step.timeout_ms},
            )
        return self._decided(answer)

    def _question(self, execution: Execution) -> Question:
        """What is asked. Raises StepFailed if there is nothing to decide on."""
        step, state = self._step, execution.state
        if step.content_key not in state:
            hint = suggestion(step.content_key, state, noun="Fields")
            raise StepFailed(
                f"Step {step.name!r} wants approval of {step.content_key!r}, which is not in the state. {hint}",
                code="APPROVAL_CONTENT_MISSING",
                details={"contentKey": step.content_key},
            )
        asked = {
            "type": "approval",
            "contentKey": step.content_key,
            "content": state[step.content_key],
            "prompt": render(step.prompt, execution.input, state),
        }
        return Question(asked, delay=step.timeout_ms / 1000 if step.timeout_ms is not None else None)

    def _decided(self, answer: Mapping[str, Any]) -> StepResult:
        """The result of a decision. Raises StepFailed for one that ends the run."""
        step, decision, decided_by = self._step, answer["decision"], answer.get("decidedBy")
        if decision == "rejected" and step.on_reject == "fail":
            raise StepFailed(
                f"{step.content_key!r} was rejected in step {step.name!r}{f' by {decided_by}' if decided_by else ''}.",
                code="APPROVAL_REJECTED",
                details={"contentKey": step.content_key, "decidedBy": decided_by},
                is_final=True,
            )
        told = {"decision": decision, "approved": decision != "rejected", "decidedBy": decided_by}
        edited = {step.content_key: answer["content"]} if decision == "edited" else {}
        return StepResult(output=told, state_updates={decision_key(step.name): told, **edited})


def unfit_decision(answer: Any) -> str | None:
    """Why something is no decision; None if it is one."""
    told: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if told.get("decision") not in DECISIONS:
        return f"The decision is {told.get('decision')!r}. Choices: {', '.join(DECISIONS)}."
    if told["decision"] == "edited" and "content" not in told:
        return "The decision is 'edited', and there is no content. Give the edited content."
    return None


# -- Conditions: a value of the state decides which of two steps follows.


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


# -- External events: the run waits for a signal, whose payload becomes part of the state.


class ExternalEventPerformer:
    """Waits for a type of signal, for a limited time if there is a limit."""

    def __init__(self, step: ExternalEventStep) -> None:
        self._step = step
        delay = step.timeout_ms / 1000 if step.timeout_ms is not None else None
        value = {"type": "external_event", "signalType": step.signal_type}
        self._question = Question(value, signal=step.signal_type, delay=delay)

    def perform(self, execution: Execution) -> StepResult:
        payload = execution.wait_for(self._question, unfit_payload)
        if payload is None:
            step = self._step
            raise StepFailed(
                f"Step {step.name!r} waited {step.timeout_ms} ms for a signal {step.signal_type!r}, and none came.",
                code="SIGNAL_TIMEOUT",
                details={"signalType": step.signal_type, "timeoutMs": step.timeout_ms},
            )
        return StepResult(output=payload, state_updates=payload)


# -- Tasks: a function of the user's is called.
#
# A handler that answers `waiting` has done its part. What it answered is kept in the question, and when the timer or
# the signal comes the step is completed with that, without calling the handler again.


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


# -- Waits: time goes by, and nothing is held meanwhile.


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
