"""Execution of the steps that need no model: conditions, waits, external events, approvals and tasks.

Each function performs one type of step, and waits if the step has to wait, so the result is never `waiting`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from statewright.errors import suggestion
from statewright.workflow.steps.execution import StepExecution, WaitRequest
from statewright.workflow.steps.handlers import Handler
from statewright.workflow.steps.model import ApprovalStep, ConditionStep, ExternalEventStep, TaskStep, WaitStep
from statewright.workflow.steps.result import NEXT_STEP, StepFailed, StepResult, read_result, to_jsonable
from statewright.workflow.steps.template import is_expression_true, render

# -- conditions


def result_key(step: str) -> str:
    """Return the field of the state that stores the outcome of a condition."""
    return f"__condition_{step}"


def perform_condition(step: ConditionStep, execution: StepExecution) -> StepResult:
    """Select one of two steps, and store the outcome in the state."""
    outcome = is_expression_true(step.expression, execution.state)
    target = step.true_step if outcome else step.false_step
    updates = {result_key(step.name): outcome, NEXT_STEP: target}
    return StepResult(output={"result": outcome, "nextStep": target}, state_updates=updates)


# -- waits


def perform_wait(step: WaitStep, execution: StepExecution) -> StepResult:
    """Wait for a duration or until a timestamp. A timestamp in the past ends the wait immediately.

    The node is suspended, so a wait of days occupies neither a thread nor a connection.
    """
    request = WaitRequest(
        {"type": "wait"}, is_timer=True, delay=_to_seconds(step.duration_ms), until=step.until_timestamp
    )
    execution.wait_for(request, lambda _: None)
    return StepResult()


def _to_seconds(milliseconds: int | None) -> float | None:
    return milliseconds / 1000 if milliseconds is not None else None


# -- external events

RESERVED_PREFIX: Final = "__"
"""Prefix of the keys that the engine reserves."""


def perform_external_event(step: ExternalEventStep, execution: StepExecution) -> StepResult:
    """Wait for a signal, and merge its payload into the state. Raises StepFailed if none arrives in time."""
    value = {"type": "external_event", "signalType": step.signal_type}
    request = WaitRequest(value, signal=step.signal_type, delay=_to_seconds(step.timeout_ms))
    payload = execution.wait_for(request, check_payload)
    if payload is None:
        raise StepFailed(
            f"Step {step.name!r} received no signal {step.signal_type!r} within {step.timeout_ms} ms.",
            code="SIGNAL_TIMEOUT",
            details={"signalType": step.signal_type, "timeoutMs": step.timeout_ms},
        )
    return StepResult(output=payload, state_updates=payload)


def check_payload(payload: Any) -> str | None:
    """Return the reason why a value is not a valid payload of a signal; None if the value is valid."""
    if not isinstance(payload, Mapping):
        return f"The payload is of type {type(payload).__name__}. Send a map."
    keys = cast("Mapping[Any, Any]", payload)
    invalid = next((key for key in keys if not isinstance(key, str) or key.startswith(RESERVED_PREFIX)), None)
    if invalid is None:
        return None
    return f"The payload has the key {invalid!r}. Keys must be strings that do not start with {RESERVED_PREFIX!r}."


# -- approvals

DECISIONS: Final = ("approved", "rejected", "edited")


def decision_key(step: str) -> str:
    """Return the field of the state that stores the decision of a step, for later conditions."""
    return f"{step}_decision"


def perform_approval(step: ApprovalStep, execution: StepExecution) -> StepResult:
    """Ask a person to approve, reject or edit a field of the state.

    Raises StepFailed if the field is missing, or if no decision is made in time.
    """
    state = execution.state
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
    answer = execution.wait_for(WaitRequest(value, delay=_to_seconds(step.timeout_ms)), check_decision)
    if answer is None:
        raise StepFailed(
            f"No decision on {step.content_key!r} was made in step {step.name!r} within {step.timeout_ms} ms.",
            code="APPROVAL_EXPIRED",
            details={"contentKey": step.content_key, "timeoutMs": step.timeout_ms},
        )
    return _read_decision(step, answer)


def _read_decision(step: ApprovalStep, answer: Mapping[str, Any]) -> StepResult:
    """Convert a decision to a result. Raises StepFailed for a rejection that ends the run."""
    decision, decided_by = answer["decision"], answer.get("decidedBy")
    if decision == "rejected" and step.on_reject == "fail":
        raise StepFailed(
            f"{step.content_key!r} was rejected in step {step.name!r}{f' by {decided_by}' if decided_by else ''}.",
            code="APPROVAL_REJECTED",
            details={"contentKey": step.content_key, "decidedBy": decided_by},
            is_final=True,
        )
    outcome = {"decision": decision, "approved": decision != "rejected", "decidedBy": decided_by}
    edited_field = {step.content_key: answer["content"]} if decision == "edited" else {}
    return StepResult(output=outcome, state_updates={decision_key(step.name): outcome, **edited_field})


def check_decision(answer: Any) -> str | None:
    """Return the reason why a value is not a valid decision; None if the value is valid."""
    decision: Mapping[str, Any] = cast("Mapping[str, Any]", answer) if isinstance(answer, Mapping) else {}
    if decision.get("decision") not in DECISIONS:
        return f"The decision is {decision.get('decision')!r}. Choices: {', '.join(DECISIONS)}."
    if decision["decision"] == "edited" and "content" not in decision:
        return "The decision is 'edited', but the content is missing. Send the edited content."
    return None


# -- tasks
#
# A handler that returned `waiting` is not called again after the wait. Its result is stored in the interrupt, and the
# payload of the signal is merged into it. A `handler` takes the context as its only argument; see `bind_step`.


def perform_task(step: TaskStep, handler: Handler, execution: StepExecution) -> StepResult:
    """Call a sync handler, or resume the step if an earlier execution has called it."""
    return _resume(execution) or _finish_or_wait(execution, handler(execution.make_context(step.config)))


async def perform_async_task(step: TaskStep, handler: Handler, execution: StepExecution) -> StepResult:
    """Call an async handler, or resume the step if an earlier execution has called it."""
    return _resume(execution) or _finish_or_wait(execution, await handler(execution.make_context(step.config)))


def _finish_or_wait(execution: StepExecution, value: Any) -> StepResult:
    """Convert the return value of a handler to a result. Suspends the node if the handler requests a wait."""
    result = read_result(value, execution.step.name)
    if result.status != "waiting":
        return result
    incomplete_result = {"type": "task", "output": result.output, "stateUpdates": result.state_updates}
    request = WaitRequest(
        to_jsonable(incomplete_result, f"The result of step {execution.step.name!r}"),
        signal=result.signal_type,
        is_timer=result.signal_type is None,
        until=result.wait_until,
    )
    return _wait_for_payload(execution, request)


def _resume(execution: StepExecution) -> StepResult | None:
    """Complete a step whose handler has requested a wait; return None for any other step.

    Suspends the node if there is no valid payload yet.
    """
    interrupt = execution.find_open_interrupt()
    if interrupt is None:
        return None
    request = WaitRequest(
        interrupt.value, signal=interrupt.event, is_timer=interrupt.kind == "timer", until=interrupt.due_at
    )
    return _wait_for_payload(execution, request)


def _wait_for_payload(execution: StepExecution, request: WaitRequest) -> StepResult:
    """Wait, and merge the payload into the result that the handler returned before the wait."""
    result, payload = request.value, execution.wait_for(request, check_payload)
    updates: dict[str, Any] = {**(result["stateUpdates"] or {}), **(payload or {})}
    return StepResult("completed", output=result["output"] or payload or None, state_updates=updates)


PERFORM_BY_TYPE: Final[Mapping[type[Any], Callable[[Any, StepExecution], StepResult]]] = {
    ConditionStep: perform_condition,
    WaitStep: perform_wait,
    ExternalEventStep: perform_external_event,
    ApprovalStep: perform_approval,
}
"""The functions that perform steps without user-defined code, by the type of the step."""
