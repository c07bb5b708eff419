"""The port through which Statewright reads the time and waits, and the delays of retries.

Only drivers and adapters hold a clock; the core receives instants as arguments. Tests use
`statewright.testing.FakeClock`.
"""

from __future__ import annotations

import _thread
import heapq
import itertools
import math
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, runtime_checkable

from statewright.futures import SafeEvent

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
Seconds = float
Duration = float | timedelta
"""A number of seconds, or a timedelta."""


def as_seconds(duration: Duration) -> Seconds:
    """Return the duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def iso(instant: datetime) -> str:
    """Return an instant as the API and records write it, in UTC: `2026-01-02T00:00:00Z`."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def microseconds(instant: datetime) -> int:
    """Return an instant as the number of microseconds since 1970, which is how databases store it."""
    return (instant - _EPOCH) // _MICROSECOND


def instant_of(count: int) -> datetime:
    """Reverse `microseconds`."""
    return _EPOCH + timedelta(microseconds=count)


def backoff(attempt: int, *, initial: float, longest: float, factor: float = 2.0) -> float:
    """Return the seconds to wait after a failed attempt, counted from 1: exponential, with a cap, without jitter."""
    try:
        return min(initial * factor ** (attempt - 1), longest)
    except OverflowError:  # a float, after about a thousand attempts
        return longest if initial else 0.0


def half_jitter(seconds: float, chance: float) -> float:
    """Reduce a delay by up to 50 %, so that retries spread out; `chance` is between 0 and 1."""
    return seconds * (1 + chance) / 2


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> object:
        """Cancel the call; does nothing if it has been made."""
        ...


@runtime_checkable
class Clock(Protocol):
    """Source of the time, and of calls at a later time."""

    def now(self) -> datetime:
        """Return the current time, with its time zone."""
        ...

    def monotonic(self) -> Seconds:
        """Seconds since an arbitrary start; never goes back."""
        ...

    def call_later(self, seconds: Seconds, callback: Callable[[], object]) -> Timer:
        """Call `callback` after so many seconds, on a thread of the clock. It must return soon and not raise."""
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


def wait_until(clock: Clock, woken: threading.Event, due: Seconds) -> None:
    """Block the thread until `woken` is set, or `clock.monotonic()` reaches `due`; `woken` may be set then, too.

    For the system clock `Clock.wait` would be enough. A `FakeClock` may be advanced by another thread after the caller
    has read it, and `wait` would then be too long. So the timer is set first, and the clock is read afterwards.
    """
    seconds = due - clock.monotonic()
    if type(clock) is SystemClock:
        woken.wait(seconds)
        return
    timer = clock.call_later(seconds, woken.set)
    try:
        if clock.monotonic() < due:
            woken.wait()
    finally:
        timer.cancel()


class Alarm:
    """A call that is due later."""

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
    """Calls on a daemon thread of their own, which starts with the first and sleeps until the next is due.

    A signal handler may interrupt the thread that adds a call at any instruction. So the lock is a plain one, which
    cannot be left held, and entries of the heap are tuples, which are compared without calling Python functions.
    """

    def __init__(self) -> None:
        self._order = itertools.count()
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start empty. After a fork, the calls belong to the parent, and the copy of its lock may be held for ever."""
        self._lock, self._changed = threading.Lock(), SafeEvent()
        self._alarms: list[tuple[Seconds, int, Alarm]] = []
        self._sleeps_until = math.inf
        self._is_ringing = False

    def add(self, due: Seconds, callback: Callable[[], object]) -> Alarm:
        alarm = Alarm(due, next(self._order), callback)
        entry = (due, alarm.order, alarm)
        with self._lock:
            heapq.heappush(self._alarms, entry)
            if not self._is_ringing:
                self._start()
            wakes = due < self._sleeps_until
        if wakes:
            self._changed.set()
        return alarm

    def _start(self) -> None:
        ring = self._ring
        self._is_ringing = True
        try:  # not a `threading.Thread`: one whose start is interrupted may wait for ever
            _thread.start_new_thread(ring, ())
        except RuntimeError:  # there are too many threads, or the interpreter ends
            self._is_ringing = False
            raise

    def _ring(self) -> None:
        while True:
            alarm = self._next_due()
            try:
                alarm.ring()
            except Exception:  # must not prevent later calls
                import logging

                logging.getLogger("statewright").exception("A scheduled call failed.")

    def _next_due(self) -> Alarm:
        while True:
            self._changed.clear()
            with self._lock:
                while self._alarms and self._alarms[0][-1].callback is None:
                    heapq.heappop(self._alarms)
                self._sleeps_until = self._alarms[0][0] if self._alarms else math.inf
                remaining = self._sleeps_until - time.monotonic()
                if remaining <= 0:
                    return heapq.heappop(self._alarms)[-1]
            self._changed.wait(None if remaining == math.inf else remaining)


_alarms = _Alarms()
