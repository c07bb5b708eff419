"""The start of an attempt: the input of the graph, and the records from which the run's progress continues.

There are three cases. A run that has not begun takes over its thread and starts from its input. A run that waits is
resumed with the answers that have arrived; if there are none, it keeps waiting and the attempt ends. Any other run was
interrupted because its worker ended, and continues from its last checkpoint.

The thread may have another holder: a run that was cancelled in favor of this one, or an attempt that has lost its
claim. With `on_busy="interrupt"` or `"rollback"`, the runs that use the thread are cancelled, and the new run continues
from their last checkpoint, or from the one before them. A cancelled attempt may still hold the lease of the thread,
because its process has not noticed the cancellation yet, or has died.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, cast

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, LeaseRequest, run_of
from statewright.errors import LeaseLost, RecordConflict
from statewright.graph import Command
from statewright.runs import Advance, Condition, Order, Run, RunStatus, Signal, StepRun, Update, Wait, where
from statewright.runtime import CompiledGraph
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.service.context.records import UNFINISHED_STEPS, guard_claim, load_if_claimed, release_values
from statewright.service.context.service_context import ServiceContext
from statewright.service.engine.progress import Progress
from statewright.service.engine.waits import (
    Arrivals,
    find_invalid_answers,
    inbox_changes,
    match_signals,
    next_due,
    refusal_events,
    wake_change_if_signalled,
)
from statewright.service.operations.thread_edits import EditRecorder, find_edited_run


class AttemptStart(NamedTuple):
    """The start of an attempt."""

    input: Any
    """The first argument of the graph: the input of the run, a `Command` with answers, or None to continue."""
    progress: Progress


class AttemptPreparation:
    """Prepares the start of an attempt to advance one claimed run."""

    def __init__(self, context: ServiceContext, run: Run) -> None:
        self._context = context
        self._ledger = context.ledger
        self._run = run
        self._saver = context.saver_of(run.workspace_id)

    async def prepare(self, graph: CompiledGraph) -> AttemptStart | None:
        """Return the start of the attempt; None if the run keeps waiting."""
        run = self._run
        if not run.begun:
            self._report_queue_time()
            await self._take_over(graph)
            return AttemptStart(run.input if run.input is not None else {}, Progress(run, graph.graph))
        open_steps = [*where(run_id=run.id), Condition("status", "in", UNFINISHED_STEPS)]
        steps = await aresolve(self._ledger.find(StepRun, open_steps))
        waits = await aresolve(self._ledger.find(Wait, where(run_id=run.id)))
        if run.status is RunStatus.WAITING:
            return await self._resume_waiting(graph, steps, waits)
        await self.release_stale_lease()
        progress = Progress(run, graph.graph, steps=steps, waits=waits)
        inbox = await self._load_inbox()
        progress.steps.answered_ids = {signal.interrupt_id for signal in inbox if signal.interrupt_id is not None}
        saved = await aresolve(self._saver.load(run.thread_id))
        if saved is not None and saved.checkpoint.is_complete:  # the thread was edited: nothing is left to execute
            progress.values = saved.checkpoint.values
        return AttemptStart(None, progress)

    def _report_queue_time(self) -> None:
        if self._context.meter is not None:
            not_before = self._run.settings.get("notBefore")
            since = datetime.fromisoformat(not_before) if not_before is not None else self._run.created_at
            self._context.meter.record_queue_time((self._context.now() - since).total_seconds())

    async def _resume_waiting(
        self, graph: CompiledGraph, steps: Sequence[StepRun], waits: Sequence[Wait]
    ) -> AttemptStart | None:
        """Return a start with the answers that have arrived. If there are none, release the run and return None."""
        run, now = self._run, self._context.now()
        arrivals = match_signals(waits, await self._load_inbox(), now)
        await self._refuse_invalid(arrivals)
        is_past_deadline = run.deadline_at is not None and run.deadline_at <= now
        if not arrivals.ended and arrivals.refused:
            await self._release_refused(arrivals, next_due(waits, run.deadline_at))
            return None
        if not arrivals.ended and not is_past_deadline:
            await self._release_waiting(next_due(waits, run.deadline_at))
            return None
        command = cast("Any", Command)(resume=arrivals.answers)
        progress = Progress(run, graph.graph, steps=steps, waits=waits, arrivals=None if is_past_deadline else arrivals)
        return AttemptStart(command, progress)

    async def _load_inbox(self) -> Sequence[Signal]:
        """Return the unprocessed signals for the run, the oldest first."""
        unprocessed = where(run_id=self._run.id, taken=False)
        return await aresolve(self._ledger.find(Signal, unprocessed, order=Order("created_at")))

    async def _refuse_invalid(self, arrivals: Arrivals) -> None:
        """Refuse the answers that do not have the type that their wait requires."""
        typed = [wait for wait in arrivals.ended if wait.schema is not None and wait.id in arrivals.signals]
        if not typed:
            return
        saved = await aresolve(self._saver.load(self._run.thread_id))
        refused = find_invalid_answers(
            saved, {wait.interrupt_id: arrivals.answers[wait.interrupt_id] for wait in typed}
        )
        for wait in typed:
            if wait.interrupt_id in refused:
                arrivals.refuse(wait, refused[wait.interrupt_id])

    async def _release_refused(self, arrivals: Arrivals, due: datetime | None) -> None:
        """Record the refused signals, and release the run, which keeps waiting."""
        run, now = self._run, self._context.now()
        guard = [Condition("claim", "=", run.claim)]
        advance = Advance(run.id, now, {**release_values(due), "error": None}, refusal_events(arrivals), guard)
        changes = [advance, *inbox_changes(arrivals), wake_change_if_signalled(run.id, now)]
        await self._context.write(changes)

    async def _release_waiting(self, due: datetime | None) -> None:
        """Release the run, which keeps waiting. It is due again at `due`, or as soon as a signal arrives."""
        run = self._run
        guard = [Condition("claim", "=", run.claim), Condition("version", "=", run.version)]
        try:
            await aresolve(self._ledger.write([Update(Run, run.id, {**release_values(due), "error": None}, guard)]))
        except RecordConflict:  # a signal has arrived since the inbox was read: the run is due at once
            due_now = {**release_values(self._context.now()), "error": None}
            await aresolve(self._ledger.write([Update(Run, run.id, due_now, guard[:1])]))

    # -- the thread

    async def _take_over(self, graph: CompiledGraph) -> None:
        """Take over the thread from the runs that were cancelled in favor of this one. Roll them back if requested."""
        cancelled: Sequence[str] = self._run.settings.get("takesOver", ())
        if not cancelled:
            return
        await self.release_stale_lease()
        head = await aresolve(self._saver.load(self._run.thread_id))
        if not self._run.settings.get("rollsBack") or head is None:
            return
        if await find_edited_run(self._saver, head) in cancelled:
            # The claim is checked in the transaction of the rollback, because this run may be cancelled, or taken over
            # by another worker, at any moment.
            recorder = EditRecorder(self._saver, self._ledger, lambda commit, now: [guard_claim(self._run)])
            editable = graph.with_services(checkpointer=cast("Checkpointer", recorder), clock=self._context.clock)
            # With the id of the head, the rollback is refused if the head has moved: a later attempt at this run may
            # have rolled back already.
            config = {"configurable": {"thread_id": self._run.thread_id, "checkpoint_id": head.id}}
            await call_in_thread(editable.roll_back, config)

    async def release_stale_lease(self) -> None:
        """Release the thread if the attempt that holds it, at this run or another one, has lost its claim.

        The lease is read before the claims. While this attempt has its claim, no later attempt at the run has started,
        so an attempt at this run that holds the thread is an earlier one. An attempt that has lost its own claim (for
        example, because its process was suspended for longer than its lease) must not release the thread, which its
        successor may hold.
        """
        thread_id = self._run.thread_id
        lease = await aresolve(self._saver.lease(thread_id))
        if lease is None or not await self._has_lost_claim(run_of(lease.owner)):
            return
        with suppress(LeaseLost):  # the holder has released the thread meanwhile
            release = LeaseRequest(lease.owner, self._context.now(), None)
            await aresolve(self._saver.renew(thread_id, release))

    async def _has_lost_claim(self, holder_id: str) -> bool:
        """Return True if the attempt that holds the thread has lost its claim. `holder_id` is the id of its run."""
        if holder_id == self._run.id:  # an earlier attempt, as long as this one has its claim
            return await load_if_claimed(self._ledger, self._run) is not None
        run = await aresolve(self._ledger.get(Run, holder_id))
        return run is not None and run.claim is None
