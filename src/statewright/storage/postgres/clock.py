"""The clock of a Postgres server, read in this process without asking the server each time.

*The problem.* Workers of one database compare times that others have stored: the ends of leases, due times, deadlines,
times of expiry. If each of them used the clock of its machine, one that is a minute ahead would take the runs of all
others for lost, and time out waits a minute early. So there is one clock, that of the server. But to ask it for every
time would cost a round trip each.

*The approach.* The time since the machine was started runs at the same rate as the clock of the server, to within a
tenth of a millisecond each second. `ServerClock` measures the difference when the database is opened, and adds it. The
server has read its clock between the sending of the question and the arrival of the answer, so that the middle is off
by at most half of the round trip. The difference is measured again on another thread when `now()` is called and the
last measurement is `INTERVAL` old: at most one statement in that time, and none in a process that is idle. If the
server does not answer, the last measurement remains in use.

The clock of the machine is not used, so that setting it has no effect. It only shows that something has happened, such
as a suspension that the time since the start does not count on all systems: if it has moved against that time by more
than `JUMP`, the difference is measured at once.

*Accuracy.* A response may be late, for example because a pooler or the machine is busy. A measurement is used if it is
more accurate than the last one is by now, or if it contradicts that one, because a clock was set.

*Going back.* If the time has to go back by up to `SLOWED`, it passes at half its rate until it is right, so that no
two calls of `now()` contradict each other. If more, the clock of the server was set, and this clock follows it at once.
Timers are not affected: they use `monotonic()`.

*Rejected.* To add the difference to the clock of the machine: until the next measurement, the time would jump with it.
To measure with each heartbeat of the worker: a process that only serves requests has none. To take the time from the
responses to other statements: these wait for locks and for the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from statewright.clock import Clock, SystemClock, instant_of, microseconds
from statewright.errors import StatewrightError
from statewright.runtime.concurrency.worker_threads import workers

INTERVAL: Final = 10_000_000
"""The time in microseconds after which the difference is measured again."""
JUMP: Final = 500_000
"""How far in microseconds the clock of the machine has to move before the difference is measured at once."""
RETRY: Final = 1_000_000
"""The least time in microseconds between the beginnings of two measurements."""
SLOWED: Final = 1_000_000
"""How far in microseconds the time may be ahead to be slowed down instead of put back."""
_DRIFT: Final = 10_000
"""After as many microseconds, the difference may have changed by one, because quartzes differ."""
_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> int:
    """Return the number of microseconds since the start of the machine, including suspensions if the system can."""
    return (time.monotonic_ns() if _BOOT_CLOCK is None else time.clock_gettime_ns(_BOOT_CLOCK)) // 1000


class Reading(NamedTuple):
    """The time that the server has read. All numbers are microseconds."""

    server: int
    """The time of the server, since 1970."""
    sent: int
    """`elapsed()` before the question was sent."""
    received: int
    """`elapsed()` after the answer had arrived."""


class _Measurement(NamedTuple):
    """A measured difference of two clocks. All numbers are microseconds."""

    difference: int
    """The time of the server minus `elapsed()`."""
    error: int
    """The maximum error of the difference when it was measured."""
    at: int
    """`elapsed()` at the measurement."""
    slowed_from: int = 0
    """If the previous measurement led to a later time: this time, from which on the time passes at half its rate."""

    def time_at(self, count: int) -> int:
        """Return the time of the server, given `elapsed()`."""
        return max(count + self.difference, self.slowed_from + (count - self.at) // 2)

    def error_at(self, count: int) -> int:
        """Return the maximum error of the difference at a later time."""
        return self.error + (count - self.at) // _DRIFT


class ServerClock(SystemClock):
    """A `Clock` whose `now()` is the time of the server; its timers are those of the system clock.

    `read` asks the server for its time, on the thread of `submit`, and raises StatewrightError if that is not possible.
    `first` is the first reading. `machine` is the clock of the machine.
    """

    def __init__(
        self,
        read: Callable[[], Reading],
        first: Reading,
        machine: Clock,
        *,
        elapsed: Callable[[], int] = elapsed,
        submit: Callable[[Callable[[], None]], None] = workers.hand_over,
    ) -> None:
        self._read = read
        self._machine = machine
        self._elapsed = elapsed
        self._submit = submit
        self._tried_at = first.sent
        """`elapsed()` at the beginning of the last measurement, whether or not it has ended."""
        self._machine_difference = self._read_machine(first.received)
        """The time of the machine minus `elapsed()` when it was read last for a measurement."""
        self._measurement = _measurement_of(first)

    def now(self) -> datetime:
        count = self._elapsed()
        since = count - self._tried_at
        if since >= INTERVAL or (since >= RETRY and abs(self._read_machine(count) - self._machine_difference) > JUMP):
            self._measure_soon(count)
        return instant_of(self._measurement.time_at(count))

    def _read_machine(self, count: int) -> int:
        return microseconds(self._machine.now()) - count

    def _measure_soon(self, count: int) -> None:
        # No lock is taken, neither here nor by `hand_over`: a finaliser may ask for the time, and a forked process
        # could find the lock locked for ever. Two measurements at a time do no harm.
        self._tried_at = count
        self._submit(self._measure)

    def _measure(self) -> None:
        difference = self._read_machine(self._elapsed())
        try:
            reading = self._read()
        except StatewrightError:  # the database is closed, or the server cannot be reached
            return
        self._machine_difference = difference
        self._accept(reading)

    def _accept(self, reading: Reading) -> None:
        """Use a reading, if it is accurate or contradicts the measurement."""
        new, last = _measurement_of(reading), self._measurement
        error = last.error_at(new.at)
        if new.error > error and abs(new.difference - last.difference) <= new.error + error:
            return
        time_before = last.time_at(new.at)
        if 0 < time_before - new.time_at(new.at) <= SLOWED:
            new = new._replace(slowed_from=time_before)
        self._measurement = new


def _measurement_of(reading: Reading) -> _Measurement:
    trip = reading.received - reading.sent
    return _Measurement(reading.server - reading.sent - trip // 2, trip // 2 + 1, reading.received)
