"""The trace of a run: its steps with their attempts, waits and calls, as a waterfall shows them.

The record of a step has only its newest attempt. The earlier ones, and when something was asked and answered, are in
the log of the run, so a trace reads both once. A page of steps is returned with everything that happened in them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.runs import Condition, Json, ModelCall, Order, Run, RunEvent, StepRun, StepStatus, where
from statewright.service.context.records import Page
from statewright.service.context.service_context import Operations

MAX_EVENTS: Final = 20_000
"""Events that a trace reads. What happened later in a longer run is left out, and `is_complete` is False."""
MAX_CALLS: Final = 5_000
"""Calls of models that a trace reads."""
_BATCH: Final = 1_000


@dataclass(slots=True)
class Attempt:
    """One attempt at a step."""

    number: int
    started_at: datetime | None
    ended_at: datetime | None = None
    error: Json = None
    retry_at: datetime | None = None
    """When the next attempt began or begins, after a back-off."""


@dataclass(slots=True)
class PastWait:
    """A wait of a step: for an answer, a time or an event."""

    id: str
    kind: str
    signal_type: str | None
    started_at: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    """`signal`, `timer` or `end`, if the run has ended; None while the wait is open."""
    by_key: str | None = None
    """The id of the API key with which it was answered."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model or a tool within a step."""

    kind: str
    """`model` or `tool`."""
    name: str
    agent: str | None
    at: datetime
    """When its end was saved."""
    seconds: float | None
    """The duration, if it was measured."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """In US dollars."""
    error: str | None = None


@dataclass(slots=True)
class TracedStep:
    """A step with everything that happened in it."""

    step: StepRun
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    waits: list[PastWait] = field(default_factory=list[PastWait])
    calls: list[Call] = field(default_factory=list[Call])


@dataclass(frozen=True, slots=True)
class Queued:
    """A time for which the run was due, and no worker advanced it."""

    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Trace:
    """A page of the steps of a run, and what concerns the whole run."""

    run: Run
    steps: Page[StepRun]
    traced: Sequence[TracedStep]
    queued: Sequence[Queued]
    last_event: int
    """The number of the last event that was read: the stream of the run continues after it."""
    is_complete: bool
    """False if the run has more events or calls than a trace reads."""


class TraceOperations(Operations):
    """Reads traces."""

    async def trace(self, workspace_id: str, run_id: str, *, page: int = 1, page_size: int = 100) -> Trace:
        """Return a page of the steps of a run, in order, with their attempts, waits and calls. Raises NotFound."""
        run = await self.run(workspace_id, run_id)
        ledger = self.context.records.ledger_of(run)
        of_run = where(run_id=run.id)
        is_old = ledger is not self.context.ledger
        order = Order("superstep")
        steps = await self.context.records.page(
            StepRun, of_run, page=page, page_size=page_size, order=order, stale_ok=is_old
        )
        items = sorted(steps.items, key=lambda step: (step.superstep, step.position, step.started_at is None))
        events = await self._read_events(run)
        shown = [*of_run, Condition("step_id", "in", [step.id for step in items])]
        calls = await aresolve(ledger.find(ModelCall, shown, order=Order("created_at"), limit=MAX_CALLS))
        last = events[-1].seq if events else 0
        return Trace(
            run,
            steps,
            trace_steps(run, items, events, calls),
            queue_times(run, events),
            last,
            is_complete=last >= run.last_event and len(calls) < MAX_CALLS,
        )

    async def _read_events(self, run: Run) -> list[RunEvent]:
        ledger, events = self.context.records.ledger_of(run), list[RunEvent]()
        while len(events) < min(MAX_EVENTS, run.last_event):
            after = events[-1].seq if events else 0
            batch = await aresolve(ledger.events(run.id, after=after, limit=_BATCH))
            events += batch
            if len(batch) < _BATCH:
                break
        return events


def trace_steps(
    run: Run, steps: Iterable[StepRun], events: Iterable[RunEvent], model_calls: Iterable[ModelCall]
) -> list[TracedStep]:
    """Return steps with their attempts, waits and calls, given the events of the run."""
    by_step: dict[str, list[RunEvent]] = defaultdict(list)
    for event in events:
        if event.step_id is not None:
            by_step[event.step_id].append(event)
    calls: dict[str, list[Call]] = defaultdict(list)
    for call in model_calls:
        calls[call.step_id or ""].append(_model_call(call))
    ended_at = run.completed_at or run.failed_at or run.cancelled_at
    return [_trace_step(step, by_step[step.id], calls[step.id], ended_at) for step in steps]


def _trace_step(
    step: StepRun, events: Sequence[RunEvent], calls: list[Call], run_ended_at: datetime | None
) -> TracedStep:
    traced = TracedStep(step, calls=calls)
    for event in events:
        _apply(traced, event)
    for wait in traced.waits:
        if wait.ended_at is None and run_ended_at is not None:
            wait.ended_at, wait.ended_by = run_ended_at, "end"
    if not traced.attempts and step.started_at is not None:
        traced.attempts.append(Attempt(step.attempt, step.started_at, step.completed_at, step.error))
    if traced.attempts and step.status is StepStatus.CANCELLED and traced.attempts[-1].ended_at is None:
        traced.attempts[-1].ended_at = step.completed_at
    traced.calls.sort(key=lambda call: call.at)
    return traced


def _apply(traced: TracedStep, event: RunEvent) -> None:
    payload, attempts = event.payload, traced.attempts
    match event.type:
        case "STEP_STARTED":
            attempts.append(Attempt(1, event.at))
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
            traced.calls.append(_tool_call(event))
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


def _tool_call(event: RunEvent) -> Call:
    data: Any = event.payload
    return Call(
        "tool", str(data.get("tool")), data.get("agent"), event.at, data.get("seconds"), error=data.get("error")
    )


def _model_call(call: ModelCall) -> Call:
    details: Any = call.details or {}
    return Call(
        "model",
        call.model,
        details.get("agent"),
        call.created_at,
        details.get("seconds"),
        call.input_tokens,
        call.output_tokens,
        call.cost,
    )


def queue_times(run: Run, events: Iterable[RunEvent]) -> list[Queued]:
    """Return the times for which a run was due without being advanced: before its start, and after it was retried."""
    times: list[Queued] = []
    due_at: datetime | None = run.created_at
    for event in events:
        if event.type == "WORKFLOW_RETRIED":
            due_at = event.at
        elif event.type != "WORKFLOW_CREATED" and due_at is not None and event.type.startswith(("STEP_", "WORKFLOW_")):
            times.append(Queued(due_at, event.at))
            due_at = None
    return times if due_at is None else [*times, Queued(due_at, None)]
