"""Handlers of the step kinds that need no model: conditions, waits, external events, approvals and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt
from statewright.errors import suggestion
from statewright.workflow.steps.execution import StepExecution, WaitRequest
from statewright.workflow.steps.handlers import Handler, takes_step
from statewright.workflow.steps.jsonable import to_jsonable
from statewright.workflow.steps.model import ApprovalStep, ConditionStep, ExternalEventStep, TaskStep, WaitStep
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult, read_result
from statewright.workflow.steps.template import render

_MISSING: Any = object()


def is_expression_true(expression: str, state: Mapping[str, Any]) -> bool:
    """Return whether the value at a path in the state is truthy. A missing value is not."""
    value: Any = state
    for part in expression.strip().split("."):
        value = _get_part(value, part)
        if value is _MISSING:
            return False
    return is_true(value)


def _get_part(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(part, _MISSING)
    if isinstance(value, list) and part.isascii() and part.isdigit():
        items = cast("list[Any]", value)
        return items[int(part)] if int(part) < len(items) else _MISSING
    return _MISSING


def is_true(value: Any) -> bool:
    """Return whether JavaScript treats a value as true: all but null, false, 0, NaN and "", so even an empty list."""
    return value == value and value not in (None, False, 0, "")  # NaN is not equal to itself


# -- signals

RESERVED: Final = "__"
"""Prefix of the keys that the engine reserves."""


def check_payload(payload: Any) -> str | None:
    """Return why a value is not a valid payload of a signal; None if it is valid."""
    if not isinstance(payload, Mapping):
        return f"The payload is a {type(payload).__name__}. Send a map."
    keys = cast("Mapping[Any, Any]", payload)
    reserved = next((key for key in keys if not isinstance(key, str) or key.startswith(RESERVED)), None)
    if reserved is None:
        return None
    return f"The payload has the key {reserved!r}. Keys are text that does not begin with {RESERVED!r}."


# -- approvals: a person approves, rejects or edits a field of the state; the decision is stored for later conditions

DECISIONS: Final = ("approved", "rejected", "edited")


def decision_key(step: str) -> str:
    """Return the field of the state that stores the decision of a step."""
    return f"{step}_decision"


class ApprovalStepHandler:
    """Handler of approval steps: requests a decision, with an optional timeout."""

    def __init__(self, step: ApprovalStep) -> None:
        self._step = step

    def perform(self, execution: StepExecution) -> StepResult:
        answer = execution.wait_for(self._make_request(execution), check_decision)
        if answer is None:
            raise StepFailed(
                f"No decision on {self._step.content_key!r} was made in step {self._step.name!r} within "
                f"{self._step.timeout_ms} ms.",
                code="APPROVAL_EXPIRED",
                details={"contentKey": self._step.content_key, "timeoutMs": self._step.timeout_ms},
            )
        return self._make_result(answer)

    def _make_request(self, execution: StepExecution) -> WaitRequest:
        """Return the request for the decision. Raises StepFailed if the field is not in the state."""
        step, state = self._step, execution.state
        if step.content_key not in state:
            hint = suggestion(step.content_key, state, noun="Fields")
            raise StepFailed(
                f"Step {step.name!r} asks for approval of {step.content_key!r}, which is not in the state. {hint}",
                code="APPROVAL_CONTENT_MISSING",
                details={"contentKey": step.content_key},
            )
        value = {
            "type": "approval",
            "contentKey": step.content_key,
            "content": state[step.content_key],
            "prompt": render(step.prompt, execution.input, state),
        }
        return WaitRequest(value, delay=step.timeout_ms / 1000 if step.timeout_ms is not None else None)

    def _make_result(self, answer: Mapping[str, Any]) -> StepResult:
        """Return the result of a decision. Raises StepFailed for a rejection that ends the run."""
        step, decision, decided_by = self._step, answer["decision"], answer.get("decidedBy")
        if decision == "rejected" and step.on_reject == "fail":
            raise StepFailed(
                f"{step.content_key!r} was rejected in step {step.name!r}{f' by {decided_by}' if decided_by else ''}.",
                code="APPROVAL_REJECTED",
                details={"contentKey": step.content_key, "decidedBy": decided_by},
                is_final=True,
            )
        outcome = {"decision": decision, "approved": decision != "rejected", "decidedBy": decided_by}
        edited = {step.content_key: answer["content"]} if decision == "edited" else {}
        return StepResult(output=outcome, state_updates={decision_key(step.name): outcome, **edited})


def check_decision(answer: Any) -> str | None:
    """Return why a value is not a valid decision; None if it is valid."""
    decision: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if decision.get("decision") not in DECISIONS:
        return f"The decision is {decision.get('decision')!r}. Choices: {', '.join(DECISIONS)}."
    if decision["decision"] == "edited" and "content" not in decision:
        return "The decision is 'edited', and the content is missing. Send the edited content."
    return None


# -- conditions: a value of the state selects one of two steps


def result_key(step: str) -> str:
    """Return the field of the state that stores the outcome of a condition."""
    return f"__condition_{step}"


class ConditionStepHandler:
    """Handler of conditions: selects one of two steps, and stores the outcome in the state."""

    def __init__(self, step: ConditionStep) -> None:
        self._step = step

    def perform(self, execution: StepExecution) -> StepResult:
        step = self._step
        outcome = is_expression_true(step.expression, execution.state)
        target = step.true_step if outcome else step.false_step
        updates = {result_key(step.name): outcome, NEXT_STEP: target}
        return StepResult(output={"result": outcome, "nextStep": target}, state_updates=updates)


# -- external events: the run waits for a signal, whose payload is merged into the state


class ExternalEventStepHandler:
    """Handler of external events: waits for a type of signal, with an optional timeout."""

    def __init__(self, step: ExternalEventStep) -> None:
        self._step = step
        delay = step.timeout_ms / 1000 if step.timeout_ms is not None else None
        value = {"type": "external_event", "signalType": step.signal_type}
        self._request = WaitRequest(value, signal=step.signal_type, delay=delay)

    def perform(self, execution: StepExecution) -> StepResult:
        payload = execution.wait_for(self._request, check_payload)
        if payload is None:
            step = self._step
            raise StepFailed(
                f"Step {step.name!r} waited {step.timeout_ms} ms for a signal {step.signal_type!r}, and none arrived.",
                code="SIGNAL_TIMEOUT",
                details={"signalType": step.signal_type, "timeoutMs": step.timeout_ms},
            )
        return StepResult(output=payload, state_updates=payload)


# -- tasks: a user-defined function is called
#
# A handler that returns `waiting` is not called again: its result is stored in the interrupt, and the timer or signal
# completes the step with it.


class TaskStepHandler:
    """Handler of tasks whose function is sync."""

    def __init__(self, step: TaskStep, handler: Handler) -> None:
        self._step = step
        self._handler = handler
        self._takes_step = takes_step(handler)

    def perform(self, execution: StepExecution) -> StepResult:
        interrupt = execution.find_open_interrupt()
        if interrupt is not None:
            return _resume(execution, interrupt)
        return _finish_or_wait(execution, self._call_handler(execution))

    def _call_handler(self, execution: StepExecution) -> Any:
        context = execution.context(self._step.config)
        return self._handler(context, self._step) if self._takes_step else self._handler(context)


class AsyncTaskStepHandler(TaskStepHandler):
    """Handler of tasks whose function is async."""

    async def perform(self, execution: StepExecution) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        interrupt = execution.find_open_interrupt()
        if interrupt is not None:
            return _resume(execution, interrupt)
        return _finish_or_wait(execution, await self._call_handler(execution))


def _finish_or_wait(execution: StepExecution, value: Any) -> StepResult:
    """Return the result of a handler from its return value. Suspends the node if the handler asks to wait."""
    result = read_result(value, execution.step.name)
    if result.status != "waiting":
        return result
    partial = {"type": "task", "output": result.output, "stateUpdates": result.state_updates}
    request = WaitRequest(
        to_jsonable(partial, f"The result of step {execution.step.name!r}"),
        signal=result.signal_type,
        is_timer=result.signal_type is None,
        until=result.wait_until,
    )
    return _merge_payload(request.value, execution.wait_for(request, check_payload))


def _resume(execution: StepExecution, interrupt: Interrupt) -> StepResult:
    """Return the result of a step that was waiting. Suspends the node again if there is no valid payload yet."""
    request = WaitRequest(
        interrupt.value, signal=interrupt.event, is_timer=interrupt.kind == "timer", until=interrupt.due_at
    )
    return _merge_payload(interrupt.value, execution.wait_for(request, check_payload))


def _merge_payload(partial: Any, payload: Any) -> StepResult:
    """Merge a payload into the partial result that the handler returned before the wait."""
    updates: dict[str, Any] = {**(partial["stateUpdates"] or {}), **(payload or {})}
    return StepResult("completed", output=partial["output"] or payload or None, state_updates=updates)


# -- waits: no thread or connection is held meanwhile


class WaitStepHandler:
    """Handler of waits for a duration or until an instant. For an instant in the past, the run continues at once."""

    def __init__(self, step: WaitStep) -> None:
        delay = step.duration_ms / 1000 if step.duration_ms is not None else None
        self._request = WaitRequest({"type": "wait"}, is_timer=True, delay=delay, until=step.until_timestamp)

    def perform(self, execution: StepExecution) -> StepResult:
        execution.wait_for(self._request, _accept_any)
        return StepResult()


def _accept_any(_: Any) -> None:
    return None
