"""The clock of a `TestService`, which advances in jumps and lists the times that runs wait for."""

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
"""Modules that schedule periodic calls, which no run waits for."""
_INSTANT: Final = timedelta(microseconds=1)


class ServiceClock(FakeClock):
    """A clock that advances only in jumps, each to a time at which something is due."""

    requests = 0
    """The number of calls that were ever scheduled, without housekeeping."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        alarm = super().call_later(seconds, callback)
        if not _is_housekeeping(alarm):
            self.requests += 1
        return alarm

    def wait_times(self) -> list[datetime]:
        """Return the times that runs wait for, in order."""
        with self._lock:
            alarms = [alarm for alarm in self._alarms if alarm.callback is not None and not _is_housekeeping(alarm)]
        return [self._instant_of(due) for due in sorted(alarm.due for alarm in alarms)]

    def _instant_of(self, seconds: float) -> datetime:
        """Return the first time, in whole microseconds, that is at least this many seconds after the start."""
        span = timedelta(seconds=seconds)
        while span.total_seconds() < seconds:
            span += _INSTANT
        return self._start + span

    def jump_to(self, instant: datetime) -> None:
        """Set the time, and make the calls that are due then. An earlier time is ignored."""
        self._elapsed = max(self._elapsed, (instant - self._start).total_seconds())
        while self.now() < instant:  # converting the instant to float seconds may round it down
            self._elapsed = max(self._elapsed + _INSTANT.total_seconds(), nextafter(self._elapsed, inf))
        for alarm in self._due():
            alarm.ring()

    def _due(self) -> list[Alarm]:
        """Remove and return the alarms that are due now, in order. Those that callbacks add wait for the next jump."""
        due: list[Alarm] = []
        with self._lock:
            while self._alarms and self._alarms[0].due <= self._elapsed:
                due.append(heapq.heappop(self._alarms))
        return due


def _is_housekeeping(alarm: Alarm) -> bool:
    callback = alarm.callback
    while isinstance(callback, partial):
        callback = callback.func
    return getattr(callback, "__module__", None) in HOUSEKEEPING
