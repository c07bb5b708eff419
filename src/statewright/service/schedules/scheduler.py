"""The scheduler, which starts each run of a schedule exactly once, when it is due.

`due_firings` computes, without I/O, which runs are due, and `Scheduler` writes them. A run and the next time of its
schedule are written in one transaction, which is refused if the schedule has changed since it was read. So several
processes may serve the same schedules, and any of these processes may be killed at any moment.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from statewright.async_futures import aresolve
from statewright.clock import iso
from statewright.errors import DuplicateRecord, RecordConflict, StorageUnavailable
from statewright.runs import ENDED, Change, Condition, Ledger, Order, Plus, Run, Schedule, Update, where
from statewright.service.context.records import find_first
from statewright.service.context.requests import StartRun
from statewright.service.operations.control import Cancellation
from statewright.service.schedules.cron import last_times, next_time

_GRACE: Final = timedelta(minutes=1)
"""The delay up to which a start does not count as missed, because sweeps may be a little late."""
_MAX_MISSED: Final = 100
"""Maximum number of missed times that are caught up."""
_SMALLEST_STEP: Final = timedelta(microseconds=1)
"""The smallest difference between two datetimes."""


class Firing(NamedTuple):
    """One change to a schedule: a run that it starts, if any, and its new next time."""

    at: datetime | None
    """The scheduled time of the run; None if no run is started."""
    next_at: datetime | None
    """The new next time of the schedule; None if it is never due again."""


def due_firings(schedule: Schedule, now: datetime) -> list[Firing]:
    """Return the due firings of a schedule in order. After the last one, the schedule's next time is in the future.

    The `catch_up` of the schedule decides which missed times are included.
    """
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return []
    next_at = next_time(schedule.cron, schedule.timezone, now)
    due = _due_times(schedule, schedule.next_at, now)
    if not due:
        return [Firing(None, next_at)]
    return [Firing(at, after) for at, after in zip(due, [*due[1:], next_at], strict=True)]


def _due_times(schedule: Schedule, first: datetime, now: datetime) -> list[datetime]:
    if schedule.catch_up == "none":
        first = max(first, now - _GRACE)
    limit = _MAX_MISSED if schedule.catch_up == "all" else 1
    return last_times(schedule.cron, schedule.timezone, since=first - _SMALLEST_STEP, until=now, limit=limit)


# -- starting runs

Prepare = Callable[[str, StartRun, datetime], Awaitable[tuple[Run, Sequence[Change]]]]
"""Returns a new run for a request in a workspace, and the changes that create the run; see `Starter.prepare`."""
CancelRuns = Callable[[Sequence[Run]], Awaitable[Cancellation]]
"""Returns the changes that cancel runs; see `ControlOperations.prepare_cancellation`."""
_BATCH_SIZE: Final = 100
"""Maximum number of schedules that one query reads."""
_MAX_TRIES: Final = 20
"""Maximum number of tries to start a run while the records on which its start depends are changing."""
_RECHECK_AFTER: Final = timedelta(hours=1)
"""Delay before a schedule that could not be evaluated is checked again."""
logger = logging.getLogger("statewright.service")


class Scheduler:
    """A background task that starts the runs of schedules."""

    def __init__(
        self,
        ledger: Ledger,
        prepare: Prepare,
        cancel_runs: CancelRuns,
        *,
        on_started: Callable[[Run], object] | None = None,
    ) -> None:
        self._ledger = ledger
        self._prepare = prepare
        self._cancel_runs = cancel_runs
        self._on_started = on_started
        """Called with each new run after it was written, for example to wake a worker."""

    async def sweep(self, now: datetime) -> datetime | None:
        """Start the runs that are due. Return the time at which the next run is due; None if no run will be due.

        If a run cannot be started, the failure is logged, and its schedule continues with the next time.
        """
        due = [Condition("paused", "=", False), Condition("next_at", "<=", now)]
        schedules = await aresolve(self._ledger.find(Schedule, due, order=Order("next_at"), limit=_BATCH_SIZE))
        for schedule in schedules:
            await self._start_due(schedule, now)
        planned = [Condition("paused", "=", False), Condition("next_at", "!=", None)]
        first = await find_first(self._ledger, Schedule, planned, Order("next_at"))
        return first.next_at if first is not None else None

    async def _start_due(self, schedule: Schedule, now: datetime) -> None:
        """Start the due runs of one schedule. Stop if another process changes the schedule."""
        current: Schedule | None = schedule
        for firing in _firings_or_recheck(schedule, now):
            current = await self._apply_firing(current, firing, now)
            if current is None:
                return

    async def _apply_firing(self, schedule: Schedule, firing: Firing, now: datetime) -> Schedule | None:
        """Apply a firing, and return the changed schedule; None if it was changed concurrently.

        If the run cannot be started, only the next time is set.
        """
        for tries_left in reversed(range(_MAX_TRIES)):
            try:
                return await self._start(schedule, firing, now)
            except StorageUnavailable:
                raise
            except Exception as error:
                if await self._has_changed(schedule):
                    return None
                if not (tries_left and _is_temporary(error)):
                    _log_failure(schedule, firing.at, error)
                    break
        try:
            return await self._write(schedule, Firing(None, firing.next_at))
        except RecordConflict:
            return None

    async def _has_changed(self, schedule: Schedule) -> bool:
        current: Schedule | None = await aresolve(self._ledger.get(Schedule, schedule.id))
        return current is None or current.version != schedule.version

    async def _start(self, schedule: Schedule, firing: Firing, now: datetime) -> Schedule:
        if firing.at is None:
            return await self._write(schedule, firing)
        last = await self._find_blocking_run(schedule)
        if last is not None and schedule.overlap == "skip":
            return await self._write(schedule, firing)
        run, changes = await self._prepare(schedule.workspace_id, _request(schedule, firing.at), now)
        if last is None:
            updated = await self._write(schedule, firing, run, changes)
        else:  # the last run is cancelled in the transaction that starts the new run
            cancellation = await self._cancel_runs([last])
            updated = await self._write(schedule, firing, run, [*cancellation.changes, *changes])
            cancellation.publish()
        if self._on_started is not None:
            self._on_started(run)
        return updated

    async def _find_blocking_run(self, schedule: Schedule) -> Run | None:
        """Return the last run of a schedule if it has not ended and `overlap` allows no other run besides it."""
        if schedule.last_run_id is None or schedule.overlap in ("allow", "enqueue"):
            return None
        last: Run | None = await aresolve(self._ledger.get(Run, schedule.last_run_id))
        return last if last is not None and last.status not in ENDED else None

    async def _write(
        self, schedule: Schedule, firing: Firing, run: Run | None = None, changes: Sequence[Change] = ()
    ) -> Schedule:
        values: dict[str, Any] = {"next_at": firing.next_at}
        if run is not None:
            values.update(last_at=firing.at, last_run_id=run.id)
        guarded = Update(Schedule, schedule.id, {**values, "version": Plus(1)}, where(version=schedule.version))
        # The guarded update comes first, so that a late process is refused before anything is written.
        await aresolve(self._ledger.write([guarded, *changes]))
        return replace(schedule, **values, version=schedule.version + 1)


def _firings_or_recheck(schedule: Schedule, now: datetime) -> list[Firing]:
    try:
        return due_firings(schedule, now)
    except Exception as error:
        # For example, this machine may not know the time zone. Other processes may be able to evaluate the schedule.
        _log_failure(schedule, schedule.next_at, error)
        return [Firing(None, now + _RECHECK_AFTER)]


def _request(schedule: Schedule, at: datetime) -> StartRun:
    """Return the request for the run of a schedule at one time."""
    origin = f"schedule:{schedule.id}"
    return StartRun(
        graph=schedule.graph if schedule.definition_id is None else None,
        definition_id=schedule.definition_id,
        input=schedule.input,
        idempotency_key=f"{origin}:{iso(at)}",
        tags=schedule.tags,
        metadata={**schedule.metadata, "scheduledFor": iso(at)},
        source=origin,
        sequence=origin if schedule.overlap == "enqueue" else None,
    )


def _is_temporary(error: Exception) -> bool:
    """Return True if another try may succeed, because the error shows that a record was changed concurrently."""
    return isinstance(error, RecordConflict) and not isinstance(error, DuplicateRecord)


def _log_failure(schedule: Schedule, at: datetime | None, error: Exception) -> None:
    """Log that a run could not be started, unless it was started before with the same idempotency key."""
    if isinstance(error, DuplicateRecord) and "idempotency_key" in error.columns:
        return
    logger.warning(
        "Schedule %r could not start its run for %s: %s",
        schedule.name,
        at and iso(at),
        error,
        extra={"workspace_id": schedule.workspace_id, "schedule_id": schedule.id, "graph": schedule.graph},
    )
