"""A clock that stands still until it is told to go on."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from statewright.clock import Alarm, Duration, as_seconds

T = TypeVar("T")
QUIET = 0.01
"""Seconds of the machine without a question after which a clock that jumps does so."""
TURNS = 20
"""How often `run` lets the loop turn before it takes it that everything waits for the clock."""


class FakeClock:
    """Obeys the port `Clock`; time passes only in `advance`, in `run`, or by itself with `jumps=True`.

    With `jumps=True` it goes on to the next call that is due whenever nobody has asked it anything for a moment, so
    that waits are over at once. That suits nodes that take no time of their own; timeouts are tested with `advance`.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, jumps: bool = False) -> None:
        self._start = start
        self._passed = 0.0
        self._jumps = jumps
        self._alarms: list[Alarm] = []
        self._order = itertools.count()
        self._lock = threading.RLock()
        self._jumper: threading.Thread | None = None
        self._asked = 0
        self._wakers: dict[int, threading.Event] = {}
        """What ends a wait before its alarm rings, by the alarm."""

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        return self._passed

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        with self._lock:
            alarm = Alarm(self._passed + max(seconds, 0.0), next(self._order), callback)
            heapq.heappush(self._alarms, alarm)
            self._asked += 1
            if self._jumps and self._jumper is None:
                self._jumper = threading.Thread(target=self._jump_when_quiet, name="fake-clock", daemon=True)
                self._jumper.start()
        return alarm

    def _jump_when_quiet(self) -> None:
        while True:
            with self._lock:
                asked, waiting = self._asked, any(alarm.callback is not None for alarm in self._alarms)
                if not waiting:
                    self._jumper = None
                    return
            time.sleep(QUIET)
            if asked == self._asked:
                self._jump()

    def wait(self, woken: threading.Event, seconds: float) -> None:
        over = threading.Event()
        with self._lock:
            alarm = self.call_later(seconds, over.set)
            self._wakers[id(alarm)] = woken
        while not (over.is_set() or woken.wait(0.001)):
            pass  # somebody else lets time pass
        alarm.cancel()
        del self._wakers[id(alarm)]

    def advance(self, by: Duration) -> None:
        """Let time pass, in seconds if a number is given, and make the calls that fall due, in their order.

        Raises ValueError for going back.
        """
        seconds = as_seconds(by)
        if seconds < 0:
            raise ValueError(f"Time does not go back: {by!r}.")
        target = self._passed + seconds
        while (alarm := self._pop(target)) is not None:
            self._passed = max(self._passed, alarm.due)
            alarm.ring()
        self._passed = target

    async def run(self, awaitable: Awaitable[T]) -> T:
        """What `awaitable` gives; whenever everything waits for the clock, it jumps to the next call that is due."""
        running = asyncio.ensure_future(awaitable)
        while not running.done():
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if not running.done() and not self._jump():
                await asyncio.wait([running], timeout=0.001)  # a thread works, say
        return await running

    def _jump(self) -> bool:
        """Go on to the next call that is due, and make it; False if there is none."""
        alarm = self._pop(None)
        if alarm is None:
            return False
        self._passed = max(self._passed, alarm.due)
        alarm.ring()
        return True

    def _pop(self, until: float | None) -> Alarm | None:
        with self._lock:
            while self._alarms and self._is_over(self._alarms[0]):
                heapq.heappop(self._alarms)
            if not self._alarms or (until is not None and self._alarms[0].due > until):
                return None
            return heapq.heappop(self._alarms)

    def _is_over(self, alarm: Alarm) -> bool:
        """Whether nobody waits for it any more. A thread that was woken may not have had the time to cancel it."""
        woken = self._wakers.get(id(alarm))
        return alarm.callback is None or (woken is not None and woken.is_set())
