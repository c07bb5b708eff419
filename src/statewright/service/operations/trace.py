"""The trace of a run: its steps with their attempts, waits, calls and inner steps, as a waterfall shows them.

The record of a step has only its newest attempt. The earlier ones, and when something was asked and answered, are in
the log of the run. The logs are not indexed by step, so reading them whole for each page of steps would take a time
that grows with the square of their length. A page therefore reads only the part of the logs that concerns its steps:

- Its end is found while reading: once each of the steps has ended in what was read, nothing about them can follow.
- Its beginning is known from the page before. Supersteps begin in their order, so whatever concerns a later superstep
  comes after the beginning of one that an earlier page has shown completely. A fork repeats supersteps, but later in
  the log, so this is true even then. The cursor of the next page contains this position.

The steps of one superstep begin and end in any order, so pages of one wide fan-out read the part of that fan-out each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Self

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest
from statewright.runs import Condition, Json, ModelCall, Order, Run, RunEvent, StepRun, StepStatus, any_of, where
from statewright.service.context.service_context import Operations
from statewright.service.operations.answers import read_answers
from statewright.service.operations.inner_steps import InnerSteps
from statewright.service.operations.running_tasks import show_running_tasks
from statewright.service.operations.trace_model import TracedStep
from statewright.service.operations.traced_steps import trace_steps
from statewright.stale_reads import for_history

MAX_STEPS: Final = 1_000
"""Steps of a page."""
MAX_EVENTS: Final = 20_000
"""Events that a page reads. What happened later to its steps is left out, and `is_complete` is False."""
MAX_CALLS: Final = 5_000
"""Calls of models that a page reads."""
_BATCH: Final = 500
"""Events that are read at a time."""


class Cursor(NamedTuple):
    """The start of a page of steps, and the part of the logs that concerns it."""

    superstep: int
    step_id: str
    """The last step of the page before, and its superstep."""
    after: int
    """Events up to this number do not concern the steps of the page."""
    log_after: int
    """The entries up to this number in the log of the thread do not concern the steps of the page."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the cursor in a text. Raises InvalidRequest."""
        superstep, step_id, *numbers = text.split(".") if text.count(".") == len(cls._fields) - 1 else ["", ""]
        if not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in (superstep, *numbers)):
            raise InvalidRequest(f"The cursor {text[:80]!r} is not valid. Pass `nextCursor` of the page before.")
        return cls(int(superstep), step_id, *map(int, numbers))

    def __str__(self) -> str:
        return ".".join(map(str, self))


@dataclass(frozen=True, slots=True)
class Queued:
    """A time for which the run was due, and no worker advanced it."""

    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A page of the steps of a run, and what concerns the whole run."""

    run: Run
    steps: Sequence[TracedStep]
    total_steps: int
    queued: Sequence[Queued]
    """The times in the queue. Only the first page has them; if the run was retried, it reads the whole log for them."""
    last_event: int
    """The number of the last event that was read: the stream of the run continues after it."""
    is_complete: bool
    """False if the steps have more events or calls than a trace reads."""
    next_cursor: str | None
    """The cursor of the next page; None for the last one."""


class _StepPage(NamedTuple):
    """The records of the steps of a page."""

    steps: Sequence[StepRun]
    total: int
    has_next: bool
    whole_superstep: int | None
    """The last superstep whose steps are all on this page."""


@dataclass(slots=True)
class _ReadEvents:
    """The events that a page has read."""

    events: list[RunEvent] = field(default_factory=list[RunEvent])
    is_complete: bool = True


class TraceOperations(Operations):
    """Reads traces."""

    async def trace(self, workspace_id: str, run_id: str, *, cursor: str | None = None, limit: int = 100) -> Trace:
        """Return steps of a run, in order, with their attempts, waits, calls and inner steps.

        `cursor` is that of the page before, and `limit` the number of steps, at most MAX_STEPS. Raises NotFound, and
        InvalidRequest.
        """
        start = Cursor.parse(cursor) if cursor is not None else None
        if not 1 <= limit <= MAX_STEPS:
            raise InvalidRequest(f"limit is {limit}, but a page has 1 to {MAX_STEPS} steps.")
        run = await self.run(workspace_id, run_id)
        page = await self._read_steps(run, start, limit)
        read = await self._read_events(run, page.steps, start)
        shown = [*where(run_id=run.id), Condition("step_id", "in", [step.id for step in page.steps])]
        ledger = self.context.records.ledger_of(run)
        calls = await aresolve(ledger.find(ModelCall, shown, order=Order("created_at"), limit=MAX_CALLS))
        inner = InnerSteps(page.steps, redact=self.context.redact)
        if _may_have_inner_steps(page.steps, read.events):
            await inner.read(self._saver_of(run), run, after=start.log_after if start is not None else 0)
        is_whole = start is None and not page.has_next
        shown_steps = show_running_tasks(self.context, run, page.steps, is_whole=is_whole)
        steps = trace_steps(run, shown_steps, read.events, calls, inner)
        answered = [
            wait for step in steps for wait in step.waits if wait.kind == "question" and wait.ended_by == "signal"
        ]
        answers: Mapping[str, Json] = await read_answers(ledger, run.id) if answered else {}
        for wait in answered:
            wait.answer = answers.get(wait.id)
        return Trace(
            run=run,
            steps=steps,
            total_steps=page.total,
            queued=queue_times(run, read.events) if start is None else (),
            last_event=read.events[-1].seq if read.events else start.after if start is not None else 0,
            is_complete=read.is_complete and len(calls) < MAX_CALLS and inner.is_complete,
            next_cursor=str(_next_cursor(page, read.events, inner, start)) if page.has_next else None,
        )

    def _saver_of(self, run: Run) -> Checkpointer:
        """Return the saver for the log of a run, which may be a little old on the same condition as its records."""
        saver = self.context.saver_of(run.workspace_id)
        return saver if self.context.records.ledger_of(run) is self.context.ledger else for_history(saver)

    async def _read_steps(self, run: Run, start: Cursor | None, limit: int) -> _StepPage:
        """Return the page of steps after a cursor. Steps of the same superstep are in the order of their ids."""
        of_run, ledger = where(run_id=run.id), self.context.records.ledger_of(run)
        following = list(of_run)
        if start is not None:
            same_superstep = [*where(superstep=start.superstep), Condition("id", ">", start.step_id)]
            following.append(any_of([Condition("superstep", ">", start.superstep)], same_superstep))
        # Counted first, so that a last page of a run that goes on never shows fewer steps than are counted.
        total = await aresolve(ledger.count(StepRun, of_run))
        read = await aresolve(ledger.find(StepRun, following, order=Order("superstep"), limit=limit + 1))
        steps, next_steps = read[:limit], read[limit:]
        cut = {step.superstep for step in next_steps} | ({start.superstep} if start is not None else set[int]())
        whole = max({step.superstep for step in steps} - cut, default=None)
        steps = sorted(steps, key=lambda step: (step.superstep, step.position, step.started_at is None))
        return _StepPage(steps, total, bool(next_steps), whole)

    async def _read_events(self, run: Run, steps: Sequence[StepRun], start: Cursor | None) -> _ReadEvents:
        """Return the events of a run, from the first that may concern the steps until all of them have ended."""
        ledger, result = self.context.records.ledger_of(run), _ReadEvents()
        after = start.after if start is not None else 0
        unsettled = {step.id: step.completed_at for step in steps}
        reads_all = start is None and bool(run.settings.get("retries"))
        while (unsettled or reads_all or not result.events) and after < run.last_event:
            if len(result.events) >= MAX_EVENTS:
                result.is_complete = False
                break
            batch = await aresolve(ledger.events(run.id, after=after, limit=_BATCH))
            result.events += batch
            if not batch:
                break
            after = batch[-1].seq
            for event in batch:
                ended_at = unsettled.get(event.step_id) if event.step_id is not None else None
                if ended_at is not None and event.type in _ENDS and event.at >= ended_at:
                    del unsettled[event.step_id or ""]
        return result


_ENDS: Final = ("STEP_COMPLETED", "STEP_FAILED", "STEP_SKIPPED")
"""The events that may be the last of a step. A step that a fork has repeated had ended before, so times count, too."""


def _may_have_inner_steps(steps: Sequence[StepRun], events: Sequence[RunEvent]) -> bool:
    """Return whether the log of the thread has to be read: a step has not completed, or has had inner steps."""
    completed = (StepStatus.COMPLETED, StepStatus.SKIPPED)
    ids = {step.id for step in steps}
    return any(step.status not in completed for step in steps) or any(
        "hasInnerSteps" in event.payload for event in events if event.step_id in ids
    )


def _next_cursor(page: _StepPage, events: Sequence[RunEvent], inner: InnerSteps, start: Cursor | None) -> Cursor:
    """Return the cursor of the page after this one."""
    last = max(page.steps, key=lambda step: (step.superstep, step.id))
    after, log_after = (start.after, start.log_after) if start is not None else (0, 0)
    if page.whole_superstep is not None:
        ids = {step.id for step in page.steps if step.superstep == page.whole_superstep}
        after = next((event.seq - 1 for event in events if event.step_id in ids), after)
        log_after = max(log_after, inner.end_of(page.whole_superstep))
    return Cursor(last.superstep, last.id, after, log_after)


def queue_times(run: Run, events: Sequence[RunEvent]) -> list[Queued]:
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
