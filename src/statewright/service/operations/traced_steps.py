"""The steps of a trace: what the log of a run says about the attempts, waits and calls of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

from statewright.runs import ModelCall, Run, RunEvent, StepRun, StepStatus
from statewright.service.operations.inner_steps import InnerSteps
from statewright.service.operations.trace_model import Attempt, Call, PastWait, TracedStep, agent_of


def trace_steps(
    run: Run,
    steps: Iterable[StepRun],
    events: Iterable[RunEvent],
    model_calls: Iterable[ModelCall],
    inner: InnerSteps,
) -> list[TracedStep]:
    """Return steps with their attempts, waits, calls and inner steps, given the events of the run."""
    by_step: dict[str, list[RunEvent]] = defaultdict(list)
    for event in events:
        if event.step_id is not None:
            by_step[event.step_id].append(event)
    calls: dict[str, list[Call]] = defaultdict(list)
    for call in model_calls:
        calls[call.step_id or ""].append(Call.of_record(call))
    ended_at = run.completed_at or run.failed_at or run.cancelled_at
    traced = [_trace_step(step, by_step[step.id], calls[step.id], ended_at) for step in steps]
    for each in traced:
        inner.add_failures(each.step, by_step[each.step.id])
        each.inner_steps, each.inner_count = inner.of(each.step)
    return traced


def _trace_step(
    step: StepRun, events: Sequence[RunEvent], calls: list[Call], run_ended_at: datetime | None
) -> TracedStep:
    traced = TracedStep(step, calls=calls)
    for event in events:
        _apply(traced, event)
    if step.started_at is None:  # a task that waits for its turn, although its superstep has begun
        traced.attempts.clear()
    elif traced.attempts and traced.attempts[0].started_at is not None:
        traced.attempts[0].started_at = max(traced.attempts[0].started_at, step.started_at)
    for wait in traced.waits:
        if wait.ended_at is None and run_ended_at is not None:
            wait.ended_at, wait.ended_by = run_ended_at, "end"
    if not traced.attempts and step.started_at is not None:
        traced.attempts.append(Attempt(step.attempt, step.started_at, step.completed_at, step.error))
    if traced.attempts and (step.status is StepStatus.COMPLETED or traced.attempts[-1].ended_at is None):
        traced.attempts[-1].ended_at = step.completed_at  # which is when it ended, even if it was saved later
    traced.calls.sort(key=lambda call: call.at)
    traced.agent = traced.agent or agent_of(traced.calls)
    return traced


def _apply(traced: TracedStep, event: RunEvent) -> None:
    payload, attempts = event.payload, traced.attempts
    match event.type:
        case "STEP_STARTED":
            attempts.append(Attempt(1, event.at))
            traced.agent = payload.get("agent")
        case "STEP_FAILED":
            number = int(payload.get("attempt") or 1)
            # A run that was retried on request begins with attempt 1 again, without another STEP_STARTED.
            if not attempts or attempts[-1].ended_at is not None:
                attempts.append(Attempt(number, attempts[-1].retry_at if attempts else traced.step.started_at))
            attempts[-1].number, attempts[-1].ended_at, attempts[-1].error = number, event.at, payload.get("error")
        case "STEP_RETRY_SCHEDULED":
            at = datetime.fromisoformat(str(payload["at"]))
            if attempts:
                attempts[-1].retry_at = at
            attempts.append(Attempt(int(payload["attempt"]), at))
        case "STEP_COMPLETED":
            if attempts:
                attempts[-1].ended_at = event.at
        case "STEP_WAITING":
            signal_type = payload.get("signalType")
            traced.waits.append(PastWait(str(payload["waitId"]), str(payload["kind"]), signal_type, event.at))
        case "SIGNAL_RECEIVED" | "TIMER_FIRED":
            _end_wait(traced.waits, event)
        case "TOOL_CALLED":
            traced.calls.append(Call.of_tool(payload, event.at))
        case _:
            pass


def _end_wait(waits: Sequence[PastWait], event: RunEvent) -> None:
    """Record that the oldest open wait for what has arrived has ended."""
    signal_type = event.payload.get("signalType") or None
    open_waits = [wait for wait in waits if wait.ended_at is None]
    matching = [wait for wait in open_waits if event.type == "SIGNAL_RECEIVED" and wait.signal_type == signal_type]
    for wait in (matching or open_waits)[:1]:
        wait.ended_at = event.at
        wait.ended_by = "timer" if event.type == "TIMER_FIRED" else "signal"
        wait.by_key = event.payload.get("byKey")
