"""Takeover of a thread from its holder: a run that was cancelled for this one, or an attempt that has lost its claim.

A run on a busy thread may be started with `on_busy="interrupt"` or `"rollback"`: the runs that have the thread are
cancelled, and the new run continues from their last checkpoint, or from the one before them. The cancelled attempt may
still hold the lease of the thread, because its process has not noticed the cancellation, or is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, LeaseRequest, run_of
from statewright.errors import LeaseLost
from statewright.runs import Run
from statewright.runtime import CompiledGraph
from statewright.runtime.concurrency.worker_threads import call_in_thread
from statewright.service.context.records import guard_claim, load_if_claimed
from statewright.service.context.service_context import ServiceContext
from statewright.service.operations.thread_edits import EditRecorder, find_edited_run


class ThreadTakeover:
    """Makes the thread of a claimed run available to it."""

    def __init__(self, context: ServiceContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._saver = context.saver_of(run.workspace_id)

    async def take_over(self, graph: CompiledGraph) -> None:
        """Take the thread over from the runs that were cancelled for this one, and roll them back if requested."""
        cancelled: Sequence[str] = self._run.settings.get("takesOver", ())
        if not cancelled:
            return
        await self.release_stale_lease()
        head = await aresolve(self._saver.load(self._run.thread_id))
        if not self._run.settings.get("rollsBack") or head is None:
            return
        if await find_edited_run(self._saver, head) in cancelled:
            context = self._context
            # In one transaction with the rollback: the run may be cancelled or taken over at any moment.
            recorder = EditRecorder(self._saver, context.ledger, lambda commit, now: [guard_claim(self._run)])
            editable = graph.with_services(checkpointer=cast("Checkpointer", recorder), clock=context.clock)
            # From this head only: if it has moved, a later attempt at this run may have rolled back already.
            config = {"configurable": {"thread_id": self._run.thread_id, "checkpoint_id": head.id}}
            await call_in_thread(editable.roll_back, config)

    async def release_stale_lease(self) -> None:
        """Release the thread if the attempt that holds it has lost its claim, at this run or at another one.

        The lease is read before the claims. While this attempt has its claim, no later attempt at the run has started,
        so the holder is an earlier one. An attempt that has lost its own claim (for example, because its process was
        suspended for longer than its lease) must not release the thread of its successor.
        """
        thread_id = self._run.thread_id
        lease = await aresolve(self._saver.lease(thread_id))
        if lease is None or not await self._has_lost_claim(run_of(lease.owner)):
            return
        with suppress(LeaseLost):  # the holder has released the thread itself meanwhile
            release = LeaseRequest(lease.owner, self._context.now(), None)
            await aresolve(self._saver.renew(thread_id, release))

    async def _has_lost_claim(self, holder: str) -> bool:
        """Return True if the thread is held by an attempt that has no claim any more; `holder` is the id of its run."""
        ledger = self._context.ledger
        if holder == self._run.id:
            return await load_if_claimed(ledger, self._run) is not None
        run = await aresolve(ledger.get(Run, holder))
        return run is not None and run.claim is None
