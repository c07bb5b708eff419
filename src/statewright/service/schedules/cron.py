"""The times at which a cron expression is due.

The library cronsim parses expressions and computes times. When daylight saving time starts or ends, cronsim behaves
like Debian's cron. A job at fixed hours runs once on that day. A job whose minute or hour begins with `*` keeps its
interval in elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any, Final

from statewright.errors import InvalidRequest, nearest
from statewright.extras import optional
from statewright.service.context.validation import validate_string

_MAX_LENGTH: Final = 200
"""In characters."""
_FIELDS: Final = (
    ("minute", "minute", "0 to 59"),
    ("hour", "hour", "0 to 23"),
    ("day-of-month", "day of the month", "1 to 31, L or LW, and in a month that has such a day"),
    ("month", "month", "1 to 12, or JAN to DEC"),
    ("day-of-week", "day of the week", "0 to 7, or SUN to SAT"),
)
"""For each field: its name in the errors of cronsim, its name in our errors, and the allowed values."""
_DETAILS: Final = {"field": "cron"}
"""The details of errors of cron expressions: the field of a request that has to be corrected."""
_WINDOW: Final = timedelta(days=1)
"""The period that `last_times` searches at a time."""


def next_time(cron: str, timezone: str, after: datetime) -> datetime | None:
    """Return the next time after an instant at which the expression is due, in UTC; None if none is within 50 years."""
    zone = zone_of(timezone)
    for time in _cronsim_times(cron, after.astimezone(zone)):
        if time > after:  # when clocks are set back, cronsim may begin with a time that has passed
            return time.astimezone(UTC)
    return None


def iter_times(cron: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Yield all times after an instant at which the expression is due, in UTC."""
    while (time := next_time(cron, timezone, after)) is not None:
        yield time
        after = time


def last_times(cron: str, timezone: str, *, since: datetime, until: datetime, limit: int) -> list[datetime]:
    """Return the last `limit` times that are due after `since` and not after `until`, the oldest first.

    The search goes backwards from `until`, so that it is short even after a long downtime.
    """
    due: list[datetime] = []
    end = until
    while end > since and len(due) < limit:
        start = max(since, end - _WINDOW)
        due[:0] = _times_between(cron, timezone, start, end)
        end = start
    return due[-limit:]


def _times_between(cron: str, timezone: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the times that are due after `start` and not after `end`."""
    return list(takewhile(lambda time: time <= end, iter_times(cron, timezone, start)))


def validate_cron(cron: Any) -> None:
    """Raise InvalidRequest unless a value is a valid cron expression. The error names the invalid field."""
    validate_string(cron, "A cron expression", max_length=_MAX_LENGTH)
    next(_cronsim_times(cron, datetime(2000, 1, 1, tzinfo=UTC)), None)


def zone_of(timezone: Any) -> tzinfo:
    """Return the time zone with a name, such as `Europe/Berlin`. Raises InvalidRequest if there is none."""
    name = validate_string(timezone, "A time zone")
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        match = nearest(name, available_timezones())
        hint = f"Did you mean {match!r}?" if match else "Use a name of the IANA database, such as 'Europe/Berlin'."
        raise InvalidRequest(f"Time zone {name!r} does not exist. {hint}", details={"field": "timezone"}) from None


def _cronsim_times(cron: str, start: datetime) -> Iterator[datetime]:
    """Return the times after `start` as cronsim computes them, in the time zone of `start`. Raises InvalidRequest."""
    fields = cron.split()
    if len(fields) != len(_FIELDS):
        raise InvalidRequest(
            f"The cron expression {cron!r} has {len(fields)} fields. "
            f"It needs five: minute, hour, day of the month, month, day of the week, such as '30 7 * * MON-FRI'.",
            details=_DETAILS,
        )
    with optional("Schedules need", extra="server"):
        from cronsim import CronSim, CronSimError
    try:
        return CronSim(cron, start)
    except CronSimError as error:
        raise InvalidRequest(_explain(cron, fields, str(error)), details=_DETAILS) from None


def _explain(cron: str, fields: list[str], reason: str) -> str:
    """Return the error message for an invalid expression, of which cronsim reports only the invalid field."""
    problem = f"The cron expression {cron!r} is invalid: "
    for (key, name, allowed), value in zip(_FIELDS, fields, strict=True):
        if reason == f"Bad {key}":
            return f"{problem}the {name} is {value!r}; allowed are {allowed}, or * for all."
    return f"{problem}{reason}."
