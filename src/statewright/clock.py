"""The port for reading the time and for waiting, conversions of times, and backoff.

Only drivers and adapters have a clock; the core receives times as arguments. Tests use
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
    """Return a duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def iso(instant: datetime) -> str:
    """Return an instant in the format of the API and of records, in UTC: `2026-01-02T00:00:00Z`."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def microseconds(instant: datetime) -> int:
    """Return an instant as the number of microseconds since 1970, which is how databases store it."""
    return (instant - _EPOCH) // _MICROSECOND


def instant_of(count: int) -> datetime:
    """Return the instant that is a number of microseconds after the beginning of 1970."""
    return _EPOCH + timedelta(microseconds=count)


def backoff(attempt: int, *, initial: float, longest: float, factor: float = 2.0) -> float:
    """Return the delay in seconds after the failed attempt with this number, which is 1 for the first attempt.

    The delay grows exponentially, from `initial` seconds to at most `longest` seconds, without jitter.
    """
    try:
        return min(initial * factor ** (attempt - 1), longest)
    except OverflowError:  # the power exceeds a float after about a thousand attempts
        return longest if initial else 0.0


def half_jitter(seconds: float, chance: float) -> float:
    """Return a delay reduced by up to 50 %, so that retries spread out; `chance` is a random number from 0 to 1."""
    return seconds * (1 + chance) / 2


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> object:
        """Cancel the call. Do nothing if it has already been made."""
        ...


@runtime_checkable
class Clock(Protocol):
    """A source of the time, and a scheduler of calls."""

    def now(self) -> datetime:
        """Return the current time, with its time zone."""
        ...

    def monotonic(self) -> Seconds:
        """Return the number of seconds since an arbitrary time, which never decreases."""
        ...

    def call_later(self, seconds: Seconds, callback: Callable[[], object]) -> Timer:
        """Call `callback` on a thread of the clock after a number of seconds. It must return soon and not raise."""
        ...

    def wait(self, woken: threading.Event, seconds: Seconds) -> None:
        """Block the thread until the event `woken` is set, but for at most `seconds`."""
        ...


class SystemClock:
    """The system clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> Seconds:
        return time.monotonic()

    def call_later(self, seconds: Seconds, callback: Callable[[], object]) -> Timer:
        return _alarms.add(time.monotonic() + seconds, callback)

    def wait(self, woken: threading.Event, seconds: Seconds) -> None:
        woken.wait(seconds)


def uses_system_timers(clock: Clock) -> bool:
    """Return whether the timers of a clock are those of the system clock, although its time may be another one."""
    kind = type(clock)
    return kind is SystemClock or (
        kind.call_later is SystemClock.call_later
        and kind.monotonic is SystemClock.monotonic
        and kind.wait is SystemClock.wait
    )


def clock_of(storage: object) -> Clock:
    """Return the clock of a ledger, saver, store or database; the system clock if it has none.

    Times that are stored there, or compared with stored times, are to be read from this clock. With a database server
    it is the same for all processes.
    """
    clock = getattr(storage, "clock", None)
    return clock if isinstance(clock, Clock) else SystemClock()


def wait_until(clock: Clock, woken: threading.Event, due: Seconds) -> None:
    """Block the thread until the event `woken` is set, or until `clock.monotonic()` reaches `due`.

    In the second case, `woken` may be set, too. With the timers of the system, waiting for the remaining seconds is
    enough. But another thread may advance a `FakeClock` after the caller has computed the remaining seconds, and the
    wait would be too long. So for other clocks, a timer is set first, and the clock is read afterwards.
    """
    seconds = due - clock.monotonic()
    if uses_system_timers(clock):
        woken.wait(seconds)
        return
    timer = clock.call_later(seconds, woken.set)
    try:
        if clock.monotonic() < due:
            woken.wait()
    finally:
        timer.cancel()


class Alarm:
    """A `Timer`: a call that `ring` makes when its time has come, unless it was cancelled."""

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
    """The alarms of the system clock, rung by a daemon thread that starts with the first alarm.

    A signal handler may interrupt the thread that adds an alarm at any instruction. So the lock is a plain
    `threading.Lock`, which `with` always releases, and the entries of the heap are tuples, which are compared without
    calling Python functions.
    """

    def __init__(self) -> None:
        self._order = itertools.count()
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Start without alarms. After a fork, they belong to the parent, and the copied lock may be held forever."""
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
            must_wake = due < self._sleeps_until
        if must_wake:
            self._changed.set()
        return alarm

    def _start(self) -> None:
        ring = self._ring
        self._is_ringing = True
        try:  # not with `threading.Thread`, whose `start` may wait forever if a signal handler interrupts it
            _thread.start_new_thread(ring, ())
        except RuntimeError:  # there are too many threads, or the interpreter is shutting down
            self._is_ringing = False
            raise

    def _ring(self) -> None:
        while True:
            alarm = self._next_due()
            try:
                alarm.ring()
            except Exception:  # an error in one callback must not prevent later calls
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
