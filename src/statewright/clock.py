"""The port through which Statewright reads the time and waits.

Only drivers and adapters hold a clock; the core is handed instants. Tests use `statewright.testing.FakeClock`.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

Seconds = float
Duration = float | timedelta
"""As people write it: seconds, or a timedelta."""


def as_seconds(duration: Duration) -> Seconds:
    """The duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> object:
        """Do not call any more; nothing happens if it was called already."""
        ...


@runtime_checkable
class Clock(Protocol):
    """Where instants come from, and who wakes those who wait."""

    def now(self) -> datetime:
        """The present instant, with its time zone."""
        ...

    def monotonic(self) -> Seconds:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def call_later(self, seconds: Seconds, callback: Callable[[], object]) -> Timer:
        """Call `callback` when so many seconds have passed, on whichever thread the clock has for that.

        It must return soon and raise nothing.
        """
        ...

    def wait(self, woken: threading.Event, seconds: Seconds) -> None:
        """Block the thread until `woken` is set, or so many seconds have passed."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> Seconds:
        return time.monotonic()

    def call_later(self, seconds: Seconds, callback: Callable[[], object]) -> Timer:
        return _alarms.add(time.monotonic() + seconds, callback)

    def wait(self, woken: threading.Event, seconds: Seconds) -> None:
        woken.wait(seconds)


class Alarm:
    """One entry of a list of calls that are due later."""

    __slots__ = ("callback", "due", "order")

    def __init__(self, due: Seconds, order: int, callback: Callable[[], object]) -> None:
        self.due = due
        self.order = order
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def ring(self) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()

    def __lt__(self, other: Alarm) -> bool:
        return (self.due, self.order) < (other.due, other.order)


class _Alarms:
    """Calls on a daemon thread of their own, which starts with the first and sleeps until the next is due."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._alarms: list[Alarm] = []
        self._thread: threading.Thread | None = None

    def add(self, due: Seconds, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(due, next(self._order), callback)
        with self._changed:
            heapq.heappush(self._alarms, alarm)
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads but its own
                self._thread = threading.Thread(target=self._ring, name="statewright-alarms", daemon=True)
                self._thread.start()
            elif self._alarms[0] is alarm:
                self._changed.notify()
        return alarm

    def _ring(self) -> None:
        while True:
            alarm = self._next_due()
            try:
                alarm.ring()
            except Exception:  # the others must ring all the same
                import logging

                logging.getLogger("statewright").exception("A call that was due failed.")

    def _next_due(self) -> Alarm:
        with self._changed:
            while True:
                while self._alarms and self._alarms[0].callback is None:
                    heapq.heappop(self._alarms)
                remaining = self._alarms[0].due - time.monotonic() if self._alarms else None
                if remaining is not None and remaining <= 0:
                    return heapq.heappop(self._alarms)
                self._changed.wait(remaining)


_alarms = _Alarms()
