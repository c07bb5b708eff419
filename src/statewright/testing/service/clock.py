"""The clock of a `TestService`: it stands still, and knows for what somebody waits."""

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
        "statewright.storage.sqlite.store.store",
        "statewright.store.memory",
    }
)
"""Modules whose calls come again and again, and stand for no wait of a run."""
_INSTANT: Final = timedelta(microseconds=1)


class ServiceClock(FakeClock):
    """Goes on in jumps, each to an instant at which something is due."""

    asked = 0
    """How often somebody but the housekeeping has asked to be called."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        alarm = super().call_later(seconds, callback)
        if not _is_housekeeping(alarm):
            self.asked += 1
        return alarm

    def awaited(self) -> list[datetime]:
        """The instants at which a call is due that stands for a wait, sorted."""
        with self._lock:
            due = sorted(one.due for one in self._alarms if one.callback is not None and not _is_housekeeping(one))
        return [self._instant_of(one) for one in due]

    def _instant_of(self, seconds: float) -> datetime:
        """The first instant, in whole microseconds, that is not before so many seconds from the start."""
        span = timedelta(seconds=seconds)
        while span.total_seconds() < seconds:
            span += _INSTANT
        return self._start + span

    def jump_to(self, instant: datetime) -> None:
        """Let it be this instant, and make the calls that are due then. Time does not go back."""
        self._passed = max(self._passed, (instant - self._start).total_seconds())
        while self.now() < instant:  # seconds as a float may fall short of the instant
            self._passed = max(self._passed + _INSTANT.total_seconds(), nextafter(self._passed, inf))
        for alarm in self._due():
            alarm.ring()

    def _due(self) -> list[Alarm]:
        """What is due now, in its order, and no more in the list: what is asked for meanwhile comes later."""
        due: list[Alarm] = []
        with self._lock:
            while self._alarms and self._alarms[0].due <= self._passed:
                due.append(heapq.heappop(self._alarms))
        return due


def _is_housekeeping(alarm: Alarm) -> bool:
    callback = alarm.callback
    while isinstance(callback, partial):
        callback = callback.func
    return getattr(callback, "__module__", None) in HOUSEKEEPING
