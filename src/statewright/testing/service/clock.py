"""The clock of a `TestService`, which advances in jumps and lists the times for which runs are waiting."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from math import inf, nextafter
from typing import Final

from statewright.clock import Alarm
from statewright.testing.clock import FakeClock

HOUSEKEEPING: Final = frozenset(
    {
        "statewright.runtime.lifecycle.thread_lease",
        "statewright.service.background.background_tasks",
        "statewright.service.engine.worker",
        "statewright.store.port",
    }
)
"""Modules whose scheduled calls are periodic maintenance, for which no run is waiting."""
_MICROSECOND: Final = timedelta(microseconds=1)


class ServiceClock(FakeClock):
    """A clock that advances only in jumps, each to a time at which something is due."""

    scheduled_calls = 0
    """The number of calls that were ever scheduled, without those of housekeeping."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        alarm = super().call_later(seconds, callback)
        if not _is_housekeeping(alarm):
            self.scheduled_calls += 1
        return alarm

    def wait_times(self) -> list[datetime]:
        """Return the times for which runs are waiting, in order."""
        with self._lock:
            alarms = [alarm for alarm in self._alarms if alarm.callback is not None and not _is_housekeeping(alarm)]
        return [self._instant_of(due) for due in sorted(alarm.due for alarm in alarms)]

    def _instant_of(self, seconds: float) -> datetime:
        """Return the first time, in whole microseconds, that is at least this many seconds after the start."""
        span = timedelta(seconds=seconds)
        while span.total_seconds() < seconds:
            span += _MICROSECOND
        return self._start + span

    def jump_to(self, instant: datetime) -> None:
        """Set the time, and make the calls that are due then. A time in the past is ignored.

        Calls that these calls schedule are made in a later jump, even if they are due immediately.
        """
        self._elapsed = max(self._elapsed, (instant - self._start).total_seconds())
        while self.now() < instant:  # converting the instant to float seconds may round it down
            self._elapsed = max(self._elapsed + _MICROSECOND.total_seconds(), nextafter(self._elapsed, inf))
        for alarm in self._pop_due_alarms():
            alarm.ring()

    def _pop_due_alarms(self) -> list[Alarm]:
        """Remove and return the alarms that are due now, in order."""
        due_alarms: list[Alarm] = []
        with self._lock:
            while self._alarms and self._alarms[0].due <= self._elapsed:
                due_alarms.append(heapq.heappop(self._alarms))
        return due_alarms


def _is_housekeeping(alarm: Alarm) -> bool:
    callback = alarm.callback
    while isinstance(callback, partial):
        callback = callback.func
    return getattr(callback, "__module__", None) in HOUSEKEEPING
