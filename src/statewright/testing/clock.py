"""A clock for tests, whose time passes only when a test advances it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TypeVar

from statewright.clock import Alarm, Duration, as_seconds

T = TypeVar("T")
QUIET_SECONDS = 0.01
"""Real seconds without a new alarm after which a clock with `jumps=True` advances."""
LOOP_ITERATIONS = 20
"""Iterations of the event loop after which `run` assumes that every task is waiting for the clock."""


class FakeClock:
    """A `Clock` whose time passes only in `advance` and `run`, or automatically with `jumps=True`.

    With `jumps=True` the clock advances to its next alarm whenever no alarm has been added for a moment, so that waits
    end almost at once. A node that takes real time would then reach its timeout too early, so tests of timeouts should
    use `advance` instead.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, jumps: bool = False) -> None:
        self._start = start
        self._elapsed = 0.0
        self._jumps = jumps
        self._alarms: list[Alarm] = []
        self._order = itertools.count()
        self._lock = threading.RLock()
        self._jumper: threading.Thread | None = None
        self._alarm_count = 0
        """The number of alarms that were ever added, by which `_jump_when_quiet` notices new alarms."""
        self._wake_events: dict[int, threading.Event] = {}
        """The events that end a call of `wait` before its alarm rings, by the object id of the alarm."""

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        with self._lock:
            alarm = Alarm(self._elapsed + max(seconds, 0.0), next(self._order), callback)
            heapq.heappush(self._alarms, alarm)
            self._alarm_count += 1
            if self._jumps and self._jumper is None:
                self._jumper = threading.Thread(target=self._jump_when_quiet, name="fake-clock", daemon=True)
                self._jumper.start()
        return alarm

    def _jump_when_quiet(self) -> None:
        while True:
            with self._lock:
                count = self._alarm_count
                if all(alarm.callback is None for alarm in self._alarms):
                    self._jumper = None
                    return
            time.sleep(QUIET_SECONDS)
            if count == self._alarm_count:
                self._jump()

    def wait(self, woken: threading.Event, seconds: float) -> None:
        rung = threading.Event()
        with self._lock:
            alarm = self.call_later(seconds, rung.set)
            self._wake_events[id(alarm)] = woken
        while not (rung.is_set() or woken.wait(0.001)):  # polling, because a thread cannot wait for two events at once
            pass
        alarm.cancel()
        del self._wake_events[id(alarm)]

    def advance(self, by: Duration) -> None:
        """Advance the time by a duration, and ring the alarms that fall due, in order.

        Raises ValueError for a negative duration.
        """
        seconds = as_seconds(by)
        if seconds < 0:
            raise ValueError(f"Time cannot go back: {by!r}.")
        target = self._elapsed + seconds
        while self._jump(until=target):
            pass
        # A callback may have advanced the clock further, and with `jumps=True` it advances by itself.
        self._elapsed = max(self._elapsed, target)

    async def run(self, awaitable: Awaitable[T]) -> T:
        """Await a result. Whenever every task is waiting for the clock, advance to the next alarm."""
        task = asyncio.ensure_future(awaitable)
        while not task.done():
            for _ in range(LOOP_ITERATIONS):
                await asyncio.sleep(0)
            if not task.done() and not self._jump():
                # The task is waiting for something other than the clock, such as a thread.
                await asyncio.wait([task], timeout=0.001)
        return await task

    def _jump(self, until: float = inf) -> bool:
        """Advance to the next alarm and ring it. Return False if none is due by `until`."""
        with self._lock:
            while self._alarms and self._is_obsolete(self._alarms[0]):
                heapq.heappop(self._alarms)
            if not self._alarms or self._alarms[0].due > until:
                return False
            alarm = heapq.heappop(self._alarms)
        self._elapsed = max(self._elapsed, alarm.due)
        alarm.ring()  # without the lock, because the callback may wait for another thread
        return True

    def _is_obsolete(self, alarm: Alarm) -> bool:
        """Return whether an alarm was cancelled, or its thread was woken by the event and is about to cancel it."""
        woken = self._wake_events.get(id(alarm))
        return alarm.callback is None or (woken is not None and woken.is_set())
