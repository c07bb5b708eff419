"""Old things forgotten: runs that ended longer ago than their workspace wants to keep them, and what was told of them.

A run goes in three steps, each of which may be done again: it is marked, so that nobody sets it going any more, its
thread is deleted, and it is forgotten. A run that was marked by a process which has died is marked anew by another.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.checkpoint import WorkspaceCheckpointer
from statewright.errors import RecordConflict, StorageUnavailable
from statewright.ids import draw_run_id
from statewright.runs import (
    Condition,
    Delete,
    Delivery,
    Forget,
    Ledger,
    Order,
    ReceivedEvent,
    Record,
    Run,
    RunStatus,
    Update,
    UpdateAll,
    Workspace,
    where,
)
from statewright.runtime.awaiting import answered

EVERY: Final = timedelta(hours=1)
"""How often it is looked for what is old, at least."""
AT_ONCE: Final = 100
"""How many records of a kind one sweep takes from a workspace: others get their turn between two sweeps."""
_ENDED_AT: Final[Mapping[RunStatus, str]] = {
    RunStatus.COMPLETED: "completed_at",
    RunStatus.FAILED: "failed_at",
    RunStatus.CANCELLED: "cancelled_at",
}
_TOLD: Final[Sequence[tuple[type[Record], Sequence[Condition]]]] = (
    (Delivery, [Condition("status", "!=", "pending")]),
    (ReceivedEvent, []),
)
"""What is kept beside runs, and which of it is done with."""
logger = logging.getLogger("statewright.service")


class Retention:
    """Forgets what workspaces do not want to keep: runs that have ended with their threads, events, and deliveries.

    A thread that another run has stays, and so does every run that has not ended.
    """

    def __init__(self, ledger: Ledger, saver: WorkspaceCheckpointer) -> None:
        self._ledger = ledger
        self._saver = saver
        self._again: datetime | None = None

    async def sweep(self, now: datetime) -> datetime | None:
        """Forget some of what is old; when to come again, which is now if there may be more.

        Called earlier it does nothing: nothing gets old on the ring of a bell.
        """
        if self._again is None or not self._again - EVERY <= now < self._again:
            self._again = now if await self._forget_some(now) else now + EVERY
        return self._again

    async def _forget_some(self, now: datetime) -> bool:
        """Whether there may be more."""
        limited = [Condition("retention_days", "!=", None)]
        more = False
        for workspace in await answered(self._ledger.find(Workspace, limited)):
            before = now - timedelta(days=workspace.retention_days)
            for status in _ENDED_AT:
                more |= await self._forget_runs(workspace, status, before)
            for kind, done in _TOLD:
                more |= await self._forget_told(kind, workspace, done, before)
        return more

    async def _forget_runs(self, workspace: Workspace, status: RunStatus, before: datetime) -> bool:
        """Whether there may be more of them, and it went on with these."""
        ended = _ENDED_AT[status]
        old = [*where(workspace_id=workspace.id, status=status), Condition(ended, "<", before)]
        runs: Sequence[Run] = await answered(self._ledger.find(Run, old, order=Order(ended), limit=AT_ONCE))
        gone = [run.id for run in runs if await self._forget(run)]
        return len(runs) == AT_ONCE and bool(gone)

    async def _forget(self, run: Run) -> bool:
        """Whether the run is gone."""
        try:
            await self._forget_marked(run, f"retention:{draw_run_id()}")
        except RecordConflict:
            return False  # it was set going again, or another process forgets it
        except StorageUnavailable:
            raise
        except Exception:
            told = {"run_id": run.id, "workspace_id": run.workspace_id}
            logger.exception(
                "The run %s is old, and could not be forgotten. It will be tried again.", run.id, extra=told
            )
            return False
        return True

    async def _forget_marked(self, run: Run, mark: str) -> None:
        marking = Update(Run, run.id, {"claim": mark, "worker_id": None}, where(version=run.version))
        await answered(self._ledger.write([marking]))
        try:
            shared = await self._others(run)
            if not shared:
                await self._delete_thread(run)
            still = Update(Run, run.id, {"due_at": None}, where(claim=mark, status=run.status))
            await answered(self._ledger.write([still, Forget(run.id)]))
        except BaseException:
            unmark = UpdateAll(Run, where(id=run.id, claim=mark), {"claim": None})
            await answered(self._ledger.write([unmark]))
            raise
        if shared and not await self._others(run):  # the others went at the same moment, and left it to this one
            await self._delete_thread(run)

    async def _others(self, run: Run) -> int:
        """How many other runs have the thread of a run."""
        same_thread = where(workspace_id=run.workspace_id, thread_id=run.thread_id)
        return await answered(self._ledger.count(Run, [*same_thread, Condition("id", "!=", run.id)]))

    async def _delete_thread(self, run: Run) -> None:
        await answered(self._saver.for_workspace(run.workspace_id).delete_thread(run.thread_id))

    async def _forget_told(
        self, kind: type[Record], workspace: Workspace, done: Sequence[Condition], before: datetime
    ) -> bool:
        """Whether there may be more."""
        old = [*where(workspace_id=workspace.id), *done, Condition("created_at", "<", before)]
        found: Sequence[Any] = await answered(self._ledger.find(kind, old, limit=AT_ONCE))
        if found:
            ids = [one.id for one in found]
            await answered(self._ledger.write([Delete(kind, [*done, Condition("id", "in", ids)])]))
        return len(found) == AT_ONCE
