"""Which runs of a schedule are due: a decision about what is known, without a ledger and without a clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from statewright.runs import Schedule
from statewright.service.schedules.cron import last_times, next_time

GRACE: Final = timedelta(minutes=1)
"""A time that is not older was not missed: a service that looks a little late has served."""
MOST_MISSED: Final = 100
"""How many times are caught up."""
_INSTANT: Final = timedelta(microseconds=1)


class Turn(NamedTuple):
    """One change of a schedule."""

    at: datetime | None
    """The time for which a run is to start; None if the schedule only moves on."""
    next_at: datetime | None
    """The time that is due after it."""


def turns_of(schedule: Schedule, now: datetime) -> list[Turn]:
    """What is to be done one after the other, until the next time lies ahead; nothing if it does already.

    Which of the times that went by are caught up is the schedule's `catch_up`.
    """
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return []
    ahead = next_time(schedule.cron, schedule.timezone, now)
    due = _due_times(schedule, schedule.next_at, now)
    if not due:
        return [Turn(None, ahead)]
    return [Turn(at, after) for at, after in zip(due, [*due[1:], ahead], strict=True)]


def _due_times(schedule: Schedule, first: datetime, now: datetime) -> list[datetime]:
    if schedule.catch_up == "none":
        first = max(first, now - GRACE)
    most = MOST_MISSED if schedule.catch_up == "all" else 1
    return last_times(schedule.cron, schedule.timezone, since=first - _INSTANT, until=now, most=most)
