"""The clock of the machine, and the calls that it makes later."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.interruptions import LONG, interruptions, on_another_thread

from statewright.clock import Alarm, Clock, Duration, SystemClock, _Alarms, as_seconds
from statewright.testing import FakeClock


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [(2, 2.0), (0.5, 0.5), (timedelta(milliseconds=250), 0.25), (timedelta(minutes=2), 120.0), (timedelta(), 0.0)],
)
def test_a_duration_is_seconds_or_a_timedelta(duration: Duration, seconds: float) -> None:
    found = as_seconds(duration)
    assert (found, type(found)) == (seconds, float)


@pytest.mark.parametrize("clock", [SystemClock(), FakeClock()], ids=["system", "fake"])
def test_a_clock_obeys_the_port(clock: Any) -> None:
    assert isinstance(clock, Clock)


def test_something_that_only_tells_the_time_is_no_clock() -> None:
    class Sundial:
        def now(self) -> datetime:
            return datetime.now(UTC)

    assert not isinstance(Sundial(), Clock)


def test_the_present_instant_has_a_time_zone() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    assert now.utcoffset() == timedelta()
    assert before <= now <= datetime.now(UTC)


def test_time_that_is_measured_never_goes_back() -> None:
    clock = SystemClock()
    measured = [clock.monotonic() for _ in range(100)]
    assert measured == sorted(measured)


def test_a_call_is_made_later_on_another_thread() -> None:
    called = threading.Event()
    threads: list[threading.Thread] = []

    def call() -> None:
        threads.append(threading.current_thread())
        called.set()

    SystemClock().call_later(0.001, call)
    assert called.wait(LONG)
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_call_that_is_due_already_is_made_soon(seconds: float) -> None:
    called = threading.Event()
    SystemClock().call_later(seconds, called.set)
    assert called.wait(LONG)


@contextmanager
def held_up(clock: SystemClock) -> Generator[None]:
    """While the block runs, no call is made: the thread that makes them is busy."""
    busy, go_on = threading.Event(), threading.Event()
    clock.call_later(0, lambda: (busy.set(), go_on.wait(LONG)))
    assert busy.wait(LONG)
    yield
    go_on.set()


def test_calls_are_made_in_the_order_in_which_they_fall_due() -> None:
    clock, order, done = SystemClock(), list[Any](), threading.Event()
    with held_up(clock):
        timers: list[Any] = []
        for seconds in (0.01, 0.0, 0.005, 0.002):
            place = len(timers)
            timers.append(clock.call_later(seconds, lambda place=place: order.append(timers[place].due)))
        clock.call_later(0.02, done.set)
    assert done.wait(LONG)
    assert order == sorted(timer.due for timer in timers)


def test_a_call_that_is_cancelled_is_not_made() -> None:
    clock, called, done = SystemClock(), list[str](), threading.Event()
    with held_up(clock):
        timer = clock.call_later(0, lambda: called.append("cancelled"))
        clock.call_later(0.001, done.set)
        timer.cancel()
        timer.cancel()
    assert done.wait(LONG)
    assert called == []


def test_a_call_that_was_made_can_be_cancelled_all_the_same() -> None:
    called = threading.Event()
    timer = SystemClock().call_later(0, called.set)
    assert called.wait(LONG)
    timer.cancel()


def test_a_call_may_ask_for_another() -> None:
    clock, done = SystemClock(), threading.Event()
    clock.call_later(0.001, lambda: clock.call_later(0.001, done.set))
    assert done.wait(LONG)


def test_a_wait_ends_when_somebody_wakes_it() -> None:
    woken = threading.Event()
    woken.set()
    SystemClock().wait(woken, LONG)
    assert woken.is_set()


def test_a_wait_ends_when_the_time_is_over() -> None:
    woken = threading.Event()
    SystemClock().wait(woken, 0.001)
    assert not woken.is_set()


def test_an_alarm_rings_once() -> None:
    rung: list[str] = []
    alarm = Alarm(1.0, 0, lambda: rung.append("it rang"))
    alarm.ring()
    alarm.ring()
    assert rung == ["it rang"]


def test_an_alarm_that_is_cancelled_keeps_silent() -> None:
    rung: list[str] = []
    alarm = Alarm(1.0, 0, lambda: rung.append("it rang"))
    alarm.cancel()
    alarm.ring()
    assert rung == []


def test_alarms_are_sorted_by_when_they_are_due_and_then_by_when_they_were_set() -> None:
    alarms = [Alarm(2.0, 0, print), Alarm(1.0, 2, print), Alarm(1.0, 1, print)]
    assert [(one.due, one.order) for one in sorted(alarms)] == [(1.0, 1), (1.0, 2), (2.0, 0)]


def test_a_call_is_made_however_others_were_interrupted_that_asked_for_theirs() -> None:
    alarms: list[_Alarms] = []
    for _ in interruptions(lambda: alarms[-1].add(time.monotonic(), int), lambda: alarms.append(_Alarms())):
        called = threading.Event()
        on_another_thread(lambda called=called: alarms[-1].add(time.monotonic(), called.set))
        assert called.wait(LONG)


def test_a_call_before_which_another_was_interrupted_does_not_wait_for_the_next() -> None:
    alarms = _Alarms()
    alarms.add(time.monotonic() + 3600, int)
    for _ in interruptions(lambda: alarms.add(time.monotonic(), int)):
        called = threading.Event()
        on_another_thread(lambda called=called: alarms.add(time.monotonic() + 0.001, called.set))
        assert called.wait(LONG)
