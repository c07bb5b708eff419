"""Retention: runs that ended longer ago than their workspace keeps them are deleted, with events and deliveries.

A run and its thread are deleted in one transaction, which is refused if the run has changed since it was read, or if
another run has the thread. So it does not matter what happens between reading and deleting, or how many processes
delete at once, and a process that dies leaves nothing half deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.checkpoint import WorkspaceCheckpointer
from statewright.errors import RecordConflict, RecordPresent, StorageUnavailable
from statewright.runs import (
    Absent,
    Among,
    Change,
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
    Workspace,
    where,
)

EVERY: Final = timedelta(hours=1)
"""The interval between sweeps, at most."""
AT_ONCE: Final = 100
"""Records of a kind that one sweep deletes per workspace; others get their turn between sweeps."""
_ENDED_AT: Final[Mapping[RunStatus, str]] = {
    RunStatus.COMPLETED: "completed_at",
    RunStatus.FAILED: "failed_at",
    RunStatus.CANCELLED: "cancelled_at",
}
_TOLD: Final[Sequence[tuple[type[Record], Sequence[Condition]]]] = (
    (Delivery, [Condition("status", "!=", "pending")]),
    (ReceivedEvent, []),
)
"""Other records with a retention, and the conditions on which they are finished."""
_MAY_CONTINUE: Final = [status for status in RunStatus if status.may_become]
"""The statuses of runs whose nodes may be executed again: a failed run may be retried."""
_TRIES: Final = 3
"""Tries to delete a run whose thread other runs take and leave at the same time."""
logger = logging.getLogger("statewright.service")


class Retention:
    """Deletes what workspaces no longer keep: ended runs with their threads, received events, and deliveries.

    A thread that another run has stays, and so does every run that has not ended. A run that another one has started
    also stays as long as that one may execute the node again: its record is how the node knows that it was started.
    """

    def __init__(self, ledger: Ledger, saver: WorkspaceCheckpointer) -> None:
        self._ledger = ledger
        self._saver = saver
        self._again: datetime | None = None

    async def sweep(self, now: datetime) -> datetime | None:
        """Delete some of the old records; return the time of the next sweep, which is now if there may be more.

        Called earlier it does nothing: nothing gets old on the ring of a bell.
        """
        if self._again is None or not self._again - EVERY <= now < self._again:
            self._again = now if await self._forget_some(now) else now + EVERY
        return self._again

    async def _forget_some(self, now: datetime) -> bool:
        """Return whether there may be more."""
        limited = [Condition("retention_days", "!=", None)]
        more = False
        for workspace in await aresolve(self._ledger.find(Workspace, limited)):
            before = now - timedelta(days=workspace.retention_days)
            for status in _ENDED_AT:
                more |= await self._forget_runs(workspace, status, before)
            for kind, done in _TOLD:
                more |= await self._forget_told(kind, workspace, done, before)
        return more

    async def _forget_runs(self, workspace: Workspace, status: RunStatus, before: datetime) -> bool:
        """Forget runs of one status that ended before an instant. Return whether more of them may be left."""
        ended = _ENDED_AT[status]
        old = [*where(workspace_id=workspace.id, status=status), Condition(ended, "<", before)]
        deleted = skipped = 0
        while deleted < AT_ONCE:
            page = await aresolve(self._ledger.find(Run, old, order=Order(ended), limit=AT_ONCE, offset=skipped))
            needed = await self._find_needed(page)
            forgotten = [run for run in page if run.id not in needed and await self._forget(run)]
            deleted += len(forgotten)
            skipped += len(page) - len(forgotten)  # and what comes after them gets its turn
            if len(page) < AT_ONCE:
                return False
        return True

    async def _find_needed(self, runs: Sequence[Run]) -> set[str]:
        """Return the ids of the runs whose parents may execute the nodes again that have started them."""
        parents = sorted({run.parent_id for run in runs if run.parent_id is not None})
        if not parents:
            return set()
        conditions = [Condition("id", "in", parents), Condition("status", "in", _MAY_CONTINUE)]
        active = {parent.id for parent in await aresolve(self._ledger.find(Run, conditions))}
        return {run.id for run in runs if run.parent_id in active}

    async def _forget(self, run: Run) -> bool:
        """Delete a run, and its thread unless another run has it; return whether it is gone."""
        try:
            for _ in range(_TRIES):
                if await self._delete_with_thread(run) or await self._delete_without_thread(run):
                    return True
        except RecordConflict:  # it was set going again, or another process has deleted it
            pass
        except StorageUnavailable:
            raise
        except Exception:
            fields = {"run_id": run.id, "workspace_id": run.workspace_id}
            logger.exception(
                "The run %s is old, and could not be deleted. It will be tried again.", run.id, extra=fields
            )
        return False

    async def _delete_with_thread(self, run: Run) -> bool:
        """Return False if another run has the thread. Raises RecordConflict if the run has changed."""
        changes: list[Change] = [
            Absent(Run, _others(run)),  # first: it writes nothing
            Update(Run, run.id, {}, where(version=run.version)),
            Forget(run.id),
        ]
        saver = self._saver.for_workspace(run.workspace_id)
        try:
            await aresolve(saver.delete_thread(run.thread_id, also=[self._ledger.job(changes)]))
        except RecordPresent:
            return False
        return True

    async def _delete_without_thread(self, run: Run) -> bool:
        """Return False if no other run has the thread any more, or if the run has changed."""
        is_shared = Condition("thread_id", "in", Among(Run, "thread_id", _others(run)))
        guard = Update(Run, run.id, {}, [*where(version=run.version), is_shared])
        try:
            await aresolve(self._ledger.write([guard, Forget(run.id)]))
        except RecordConflict:
            return False
        return True

    async def _forget_told(
        self, kind: type[Record], workspace: Workspace, done: Sequence[Condition], before: datetime
    ) -> bool:
        """Return whether there may be more."""
        old = [*where(workspace_id=workspace.id), *done, Condition("created_at", "<", before)]
        records: Sequence[Any] = await aresolve(self._ledger.find(kind, old, limit=AT_ONCE))
        if records:
            ids = [record.id for record in records]
            await aresolve(self._ledger.write([Delete(kind, [*done, Condition("id", "in", ids)])]))
        return len(records) == AT_ONCE


def _others(run: Run) -> list[Condition]:
    """Return the conditions of the other runs that have the thread of a run."""
    same_thread = where(workspace_id=run.workspace_id, thread_id=run.thread_id)
    return [*same_thread, Condition("id", "!=", run.id)]
