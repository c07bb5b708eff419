"""The scheduler: starts each run of a schedule once, at its time.

`turns_of` computes what is due, without I/O; `Scheduler` writes it. The run and the next time of its schedule are
written in one transaction, which is refused if the schedule has changed since it was read. So several processes may
serve the same schedules, and any of them may be killed at any moment.
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

GRACE: Final = timedelta(minutes=1)
"""Times that are at most this old do not count as missed, because sweeps may be a little late."""
MOST_MISSED: Final = 100
"""Limit of missed times that are caught up."""
_INSTANT: Final = timedelta(microseconds=1)


class Turn(NamedTuple):
    """One change of a schedule."""

    at: datetime | None
    """The time for which a run is started; None if only the next time changes."""
    next_at: datetime | None
    """The next time after it; None if there is none."""


def turns_of(schedule: Schedule, now: datetime) -> list[Turn]:
    """Return the due changes of a schedule in order, the last of which sets its next time in the future.

    The `catch_up` of the schedule selects the missed times that are caught up.
    """
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return []
    next_at = next_time(schedule.cron, schedule.timezone, now)
    due = _due_times(schedule, schedule.next_at, now)
    if not due:
        return [Turn(None, next_at)]
    return [Turn(at, after) for at, after in zip(due, [*due[1:], next_at], strict=True)]


def _due_times(schedule: Schedule, first: datetime, now: datetime) -> list[datetime]:
    if schedule.catch_up == "none":
        first = max(first, now - GRACE)
    limit = MOST_MISSED if schedule.catch_up == "all" else 1
    return last_times(schedule.cron, schedule.timezone, since=first - _INSTANT, until=now, limit=limit)


# -- starting runs

Prepare = Callable[[str, StartRun, datetime], Awaitable[tuple[Run, Sequence[Change]]]]
"""Returns a run for a request of a workspace, and the changes that create it; see `Starter.prepare`."""
CancelRuns = Callable[[Sequence[Run]], Awaitable[Cancellation]]
"""Returns the cancellation of runs; see `Control.cancellation`."""
AT_ONCE: Final = 100
"""Schedules that one query reads."""
TRIES: Final = 20
"""Attempts to start one run while its thread or workspace changes concurrently."""
RECHECK_AFTER: Final = timedelta(hours=1)
"""Delay before a schedule that cannot be evaluated is checked again."""
logger = logging.getLogger("statewright.service")


class Scheduler:
    """Starts the runs of the schedules of a ledger."""

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
        """Called with each run once it is written, to wake a worker."""

    async def sweep(self, now: datetime) -> datetime | None:
        """Start the runs that are due. Return the next due time; None if there is none.

        A run that cannot start is logged, and its schedule continues with its next time.
        """
        due = [Condition("paused", "=", False), Condition("next_at", "<=", now)]
        schedules = await aresolve(self._ledger.find(Schedule, due, order=Order("next_at"), limit=AT_ONCE))
        for schedule in schedules:
            await self._start_due(schedule, now)
        return await self._due_next()

    async def _due_next(self) -> datetime | None:
        waiting = [Condition("paused", "=", False), Condition("next_at", "!=", None)]
        schedule = await find_first(self._ledger, Schedule, waiting, Order("next_at"))
        return schedule.next_at if schedule is not None else None

    async def _start_due(self, schedule: Schedule, now: datetime) -> None:
        """Start the due runs of one schedule. Another process may do this concurrently."""
        current: Schedule | None = schedule
        for turn in _turns_or_later(schedule, now):
            current = await self._apply_turn(current, turn, now)
            if current is None:
                return

    async def _apply_turn(self, schedule: Schedule, turn: Turn, now: datetime) -> Schedule | None:
        """Return the schedule after a turn; None if it was changed concurrently."""
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._start(schedule, turn, now)
            except StorageUnavailable:
                raise
            except Exception as error:
                if await self._has_changed(schedule):
                    return None
                if not (tries_left and _is_temporary(error)):
                    _log_failure(schedule, turn.at, error)
                    break
        try:
            return await self._write(schedule, Turn(None, turn.next_at))
        except RecordConflict:
            return None

    async def _has_changed(self, schedule: Schedule) -> bool:
        current: Schedule | None = await aresolve(self._ledger.get(Schedule, schedule.id))
        return current is None or current.version != schedule.version

    async def _start(self, schedule: Schedule, turn: Turn, now: datetime) -> Schedule:
        if turn.at is None:
            return await self._write(schedule, turn)
        last = await self._find_blocking_run(schedule)
        if last is not None and schedule.overlap == "skip":
            return await self._write(schedule, turn)
        run, changes = await self._prepare(schedule.workspace_id, _request(schedule, turn.at), now)
        if last is None:
            after = await self._write(schedule, turn, run, changes)
        else:  # it is cancelled in the transaction that starts the new run
            cancellation = await self._cancel_runs([last])
            after = await self._write(schedule, turn, run, [*cancellation.changes, *changes])
            cancellation.publish()
        if self._on_started is not None:
            self._on_started(run)
        return after

    async def _find_blocking_run(self, schedule: Schedule) -> Run | None:
        """Return the last run of a schedule if it blocks the next one."""
        if schedule.last_run_id is None or schedule.overlap in ("allow", "enqueue"):
            return None
        last: Run | None = await aresolve(self._ledger.get(Run, schedule.last_run_id))
        return last if last is not None and last.status not in ENDED else None

    async def _write(
        self, schedule: Schedule, turn: Turn, run: Run | None = None, changes: Sequence[Change] = ()
    ) -> Schedule:
        values: dict[str, Any] = {"next_at": turn.next_at}
        if run is not None:
            values.update(last_at=turn.at, last_run_id=run.id)
        guarded = Update(Schedule, schedule.id, {**values, "version": Plus(1)}, where(version=schedule.version))
        # The guarded update comes first, so that a process that is late is refused before anything is written.
        await aresolve(self._ledger.write([guarded, *changes]))
        return replace(schedule, **values, version=schedule.version + 1)


def _turns_or_later(schedule: Schedule, now: datetime) -> list[Turn]:
    try:
        return turns_of(schedule, now)
    except Exception as error:
        # For example, its time zone is unknown on this machine. It is checked again, but not at once.
        _log_failure(schedule, schedule.next_at, error)
        return [Turn(None, now + RECHECK_AFTER)]


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
        queue=origin if schedule.overlap == "enqueue" else None,
    )


def _is_temporary(error: Exception) -> bool:
    """Return whether another attempt may succeed, because a record on which the start depends has changed."""
    return isinstance(error, RecordConflict) and not isinstance(error, DuplicateRecord)


def _log_failure(schedule: Schedule, at: datetime | None, error: Exception) -> None:
    """Log that a run could not be started, unless it was started before under the same key."""
    if isinstance(error, DuplicateRecord) and "idempotency_key" in error.columns:
        return
    logger.warning(
        "The schedule %r could not start its run for %s: %s",
        schedule.name,
        at and iso(at),
        error,
        extra={"workspace_id": schedule.workspace_id, "schedule_id": schedule.id, "graph": schedule.graph},
    )
