"""Retention: the deletion of ended runs, received events and deliveries after the retention period of their workspace.

A run and its thread are deleted in one transaction, which is refused if the run has changed since it was read, or if
another run uses the thread. So changes between reading and deleting do no harm, several processes may delete
concurrently, and a process that dies leaves nothing half deleted.
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

SWEEP_INTERVAL: Final = timedelta(hours=1)
"""The time between sweeps if nothing is left to delete."""
BATCH_SIZE: Final = 100
"""Maximum number of records of one class that a sweep deletes in a workspace, so that sweeps are short."""
_ENDED_AT: Final[Mapping[RunStatus, str]] = {
    RunStatus.COMPLETED: "completed_at",
    RunStatus.FAILED: "failed_at",
    RunStatus.CANCELLED: "cancelled_at",
}
_OTHER_RECORDS: Final[Sequence[tuple[type[Record], Sequence[Condition]]]] = (
    (Delivery, [Condition("status", "!=", "pending")]),
    (ReceivedEvent, []),
)
"""The other classes of records that are deleted, each with the conditions that match finished records."""
_MAY_CONTINUE: Final = [status for status in RunStatus if status.may_become]
"""The statuses of runs whose nodes may be executed again, including failed runs, which may be retried."""
_MAX_TRIES: Final = 3
"""Maximum number of tries to delete a run while other runs begin and cease to use its thread."""
logger = logging.getLogger("statewright.service")


class Retention:
    """A background task that deletes old records: ended runs with their threads, received events, and deliveries.

    Runs that have not ended are kept, and so are threads that another run uses. A child run is kept, too, while the
    node that started it may be executed again: the node recognizes by the child's record that it has started the child.
    """

    def __init__(self, ledger: Ledger, saver: WorkspaceCheckpointer) -> None:
        self._ledger = ledger
        self._saver = saver
        self._next_sweep: datetime | None = None

    async def sweep(self, now: datetime) -> datetime | None:
        """Delete some of the old records. Return the time of the next sweep, which is now if more may be left.

        Calls before that time do nothing. (Every change wakes all background tasks, but no change makes a record old.)
        """
        # If the next sweep is more than one interval away, the clock was set back, and that time is ignored.
        if self._next_sweep is None or not self._next_sweep - SWEEP_INTERVAL <= now < self._next_sweep:
            self._next_sweep = now if await self._delete_some(now) else now + SWEEP_INTERVAL
        return self._next_sweep

    async def _delete_some(self, now: datetime) -> bool:
        """Delete some of the old records of each class. Return True if more may be left."""
        limited = [Condition("retention_days", "!=", None)]
        may_have_more = False
        for workspace in await aresolve(self._ledger.find(Workspace, limited)):
            before = now - timedelta(days=workspace.retention_days)
            for status in _ENDED_AT:
                may_have_more |= await self._delete_runs(workspace, status, before)
            for record_type, finished in _OTHER_RECORDS:
                may_have_more |= await self._delete_records(record_type, workspace, finished, before)
        return may_have_more

    async def _delete_runs(self, workspace: Workspace, status: RunStatus, before: datetime) -> bool:
        """Delete runs with one status that ended before an instant. Return True if more may be left."""
        ended_at = _ENDED_AT[status]
        old = [*where(workspace_id=workspace.id, status=status), Condition(ended_at, "<", before)]
        deleted = skipped = 0
        while deleted < BATCH_SIZE:
            page = await aresolve(self._ledger.find(Run, old, order=Order(ended_at), limit=BATCH_SIZE, offset=skipped))
            children = await self._find_children_in_use(page)
            count = sum([run.id not in children and await self._delete_run(run) for run in page])
            deleted += count
            skipped += len(page) - count  # so that the next page begins after the runs that were kept
            if len(page) < BATCH_SIZE:
                return False
        return True

    async def _find_children_in_use(self, runs: Sequence[Run]) -> set[str]:
        """Return the ids of the child runs to keep, because the nodes that started them may be executed again."""
        parents = sorted({run.parent_id for run in runs if run.parent_id is not None})
        if not parents:
            return set()
        conditions = [Condition("id", "in", parents), Condition("status", "in", _MAY_CONTINUE)]
        active = {parent.id for parent in await aresolve(self._ledger.find(Run, conditions))}
        return {run.id for run in runs if run.parent_id in active}

    async def _delete_run(self, run: Run) -> bool:
        """Delete a run, and its thread unless another run uses it. Return True if the run was deleted."""
        try:
            for _ in range(_MAX_TRIES):
                if await self._delete_with_thread(run) or await self._delete_without_thread(run):
                    return True
        except RecordConflict:  # the run was retried, or another process has deleted it
            pass
        except StorageUnavailable:
            raise
        except Exception:
            logger.exception(
                "Run %s is older than the retention, but could not be deleted. The next sweep tries again.",
                run.id,
                extra={"run_id": run.id, "workspace_id": run.workspace_id},
            )
        return False

    async def _delete_with_thread(self, run: Run) -> bool:
        """Delete a run and its thread. Return False if another run uses the thread.

        Raises RecordConflict if the run has changed.
        """
        changes: list[Change] = [
            Absent(Run, _others(run)),  # first, because it writes nothing
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
        """Delete a run whose thread is shared. Return False if it is no longer shared, or if the run has changed."""
        is_shared = Condition("thread_id", "in", Among(Run, "thread_id", _others(run)))
        # The thread is named, so that no two processes delete its last two runs at once, and both leave it behind.
        unchanged = where(version=run.version, workspace_id=run.workspace_id, thread_id=run.thread_id)
        guard = Update(Run, run.id, {}, [*unchanged, is_shared])
        try:
            await aresolve(self._ledger.write([guard, Forget(run.id)]))
        except RecordConflict:
            return False
        return True

    async def _delete_records(
        self, record_type: type[Record], workspace: Workspace, finished: Sequence[Condition], before: datetime
    ) -> bool:
        """Delete finished records that were created before an instant. Return True if more may be left."""
        old = [*where(workspace_id=workspace.id), *finished, Condition("created_at", "<", before)]
        records: Sequence[Any] = await aresolve(self._ledger.find(record_type, old, limit=BATCH_SIZE))
        if records:
            ids = [record.id for record in records]
            await aresolve(self._ledger.write([Delete(record_type, [*finished, Condition("id", "in", ids)])]))
        return len(records) == BATCH_SIZE


def _others(run: Run) -> list[Condition]:
    """Return the conditions that match the other runs on the thread of a run, including ended ones."""
    same_thread = where(workspace_id=run.workspace_id, thread_id=run.thread_id)
    return [*same_thread, Condition("id", "!=", run.id)]
