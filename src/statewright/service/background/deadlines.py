"""Deadlines of runs that no worker has claimed: a run that exceeds its deadline fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import RecordConflict
from statewright.runs import Change, Condition, Ledger, Order, Run, RunStatus
from statewright.service.engine.progress import NO_GRAPH, OnEnd, Progress

_GOING: Final = [RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING]
"""A paused run is not failed: only resuming or cancelling may follow a pause."""
_AT_ONCE: Final = 100


class Deadlines:
    """Fails unclaimed runs after their deadline; workers check the runs that they have claimed."""

    def __init__(self, ledger: Ledger, publish: Callable[[Sequence[Change]], object], on_end: OnEnd) -> None:
        self._ledger = ledger
        self._publish = publish
        self._on_end = on_end

    async def sweep(self, now: datetime) -> datetime | None:
        """Fail the runs whose deadline has passed; return the next deadline."""
        unclaimed = [Condition("claim", "=", None), Condition("deadline_at", "!=", None)]
        late = [*unclaimed, Condition("deadline_at", "<=", now), Condition("status", "in", _GOING)]
        late_runs = await aresolve(self._ledger.find(Run, late, order=Order("deadline_at"), limit=_AT_ONCE))
        for run in late_runs:
            await self._fail(run, now)
        if len(late_runs) == _AT_ONCE:
            return now
        next_one = await aresolve(
            self._ledger.find(
                Run, [*unclaimed, Condition("deadline_at", ">", now)], order=Order("deadline_at"), limit=1
            )
        )
        return next_one[0].deadline_at if next_one else None

    async def _fail(self, run: Run, now: datetime) -> None:
        progress = Progress(run, NO_GRAPH)
        progress.stopping, progress.on_end = "timeout", self._on_end
        try:
            changes = progress.failure_changes(TimeoutError(), now, guard=[Condition("version", "=", run.version)])
            await aresolve(self._ledger.write(changes))
        except RecordConflict:  # it was changed concurrently
            return
        self._publish(changes)
