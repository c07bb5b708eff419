"""Deadlines of runs that no worker has claimed: a run fails when its deadline has passed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import RecordConflict
from statewright.runs import Change, Condition, Ledger, Order, Run, RunStatus
from statewright.service.context.records import find_first
from statewright.service.engine.progress import NO_GRAPH, OnEnd, Progress

_MAY_FAIL: Final = [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING]
"""The statuses in which a run can fail. A paused run cannot fail: it can only be resumed or cancelled."""
_BATCH_SIZE: Final = 100
"""Maximum number of runs that one query reads."""


class Deadlines:
    """A background task that fails unclaimed runs after their deadline. Workers check the runs that they claim."""

    def __init__(self, ledger: Ledger, publish: Callable[[Sequence[Change]], object], on_end: OnEnd) -> None:
        self._ledger = ledger
        self._publish = publish
        self._on_end = on_end

    async def sweep(self, now: datetime) -> datetime | None:
        """Fail the runs whose deadline has passed. Return the next deadline, or now if more runs may be overdue."""
        unclaimed = [Condition("claim", "=", None), Condition("deadline_at", "!=", None)]
        late = [*unclaimed, Condition("deadline_at", "<=", now), Condition("status", "in", _MAY_FAIL)]
        late_runs = await aresolve(self._ledger.find(Run, late, order=Order("deadline_at"), limit=_BATCH_SIZE))
        for run in late_runs:
            await self._fail(run, now)
        if len(late_runs) == _BATCH_SIZE:
            return now
        future = [*unclaimed, Condition("deadline_at", ">", now)]
        next_run = await find_first(self._ledger, Run, future, Order("deadline_at"))
        return next_run.deadline_at if next_run is not None else None

    async def _fail(self, run: Run, now: datetime) -> None:
        progress = Progress(run, NO_GRAPH)
        progress.stopping, progress.on_end = "timeout", self._on_end
        try:
            changes = progress.failure_changes(TimeoutError(), now, guard=[Condition("version", "=", run.version)])
            await aresolve(self._ledger.write(changes))
        except RecordConflict:  # the run was changed concurrently: the next sweep checks it again
            return
        self._publish(changes)
