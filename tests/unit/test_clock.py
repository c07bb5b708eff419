"""The system clock and the calls that it schedules."""

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
    result = as_seconds(duration)
    assert (result, type(result)) == (seconds, float)


@pytest.mark.parametrize("clock", [SystemClock(), FakeClock()], ids=["system", "fake"])
def test_a_clock_implements_the_port(clock: Any) -> None:
    assert isinstance(clock, Clock)


def test_an_object_with_only_now_is_not_a_clock() -> None:
    class Sundial:
        def now(self) -> datetime:
            return datetime.now(UTC)

    assert not isinstance(Sundial(), Clock)


def test_now_has_a_time_zone() -> None:
    before = datetime.now(UTC)
    now = SystemClock().now()
    assert now.utcoffset() == timedelta()
    assert before <= now <= datetime.now(UTC)


def test_monotonic_time_never_decreases() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_a_call_runs_later_on_another_thread() -> None:
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
def test_a_call_that_is_already_due_runs_soon(seconds: float) -> None:
    called = threading.Event()
    SystemClock().call_later(seconds, called.set)
    assert called.wait(LONG)


@contextmanager
def blocked(clock: SystemClock) -> Generator[None]:
    """Keep the thread that makes the calls busy while the block runs."""
    busy, proceed = threading.Event(), threading.Event()
    clock.call_later(0, lambda: (busy.set(), proceed.wait(LONG)))
    assert busy.wait(LONG)
    yield
    proceed.set()


def test_calls_run_in_the_order_of_their_due_times() -> None:
    clock, order, done = SystemClock(), list[Any](), threading.Event()
    with blocked(clock):
        timers: list[Any] = []
        for seconds in (0.01, 0.0, 0.005, 0.002):
            index = len(timers)
            timers.append(clock.call_later(seconds, lambda index=index: order.append(timers[index].due)))
        clock.call_later(0.02, done.set)
    assert done.wait(LONG)
    assert order == sorted(timer.due for timer in timers)


def test_a_cancelled_call_does_not_run() -> None:
    clock, called, done = SystemClock(), list[str](), threading.Event()
    with blocked(clock):
        timer = clock.call_later(0, lambda: called.append("cancelled"))
        clock.call_later(0.001, done.set)
        timer.cancel()
        timer.cancel()
    assert done.wait(LONG)
    assert called == []


def test_cancelling_a_finished_call_does_nothing() -> None:
    called = threading.Event()
    timer = SystemClock().call_later(0, called.set)
    assert called.wait(LONG)
    timer.cancel()


def test_a_call_can_schedule_another() -> None:
    clock, done = SystemClock(), threading.Event()
    clock.call_later(0.001, lambda: clock.call_later(0.001, done.set))
    assert done.wait(LONG)


def test_a_wait_ends_when_its_event_is_set() -> None:
    woken = threading.Event()
    woken.set()
    SystemClock().wait(woken, LONG)
    assert woken.is_set()


def test_a_wait_ends_after_its_timeout() -> None:
    woken = threading.Event()
    SystemClock().wait(woken, 0.001)
    assert not woken.is_set()


def test_an_alarm_rings_once() -> None:
    calls: list[str] = []
    alarm = Alarm(1.0, 0, lambda: calls.append("it rang"))
    alarm.ring()
    alarm.ring()
    assert calls == ["it rang"]


def test_a_cancelled_alarm_does_not_ring() -> None:
    calls: list[str] = []
    alarm = Alarm(1.0, 0, lambda: calls.append("it rang"))
    alarm.cancel()
    alarm.ring()
    assert calls == []


def test_alarms_are_sorted_by_due_time_and_then_by_creation() -> None:
    alarms = [Alarm(2.0, 0, print), Alarm(1.0, 2, print), Alarm(1.0, 1, print)]
    assert [(alarm.due, alarm.order) for alarm in sorted(alarms)] == [(1.0, 1), (1.0, 2), (2.0, 0)]


def test_a_call_runs_after_an_earlier_scheduling_was_interrupted() -> None:
    alarms: list[_Alarms] = []
    for _ in interruptions(lambda: alarms[-1].add(time.monotonic(), int), lambda: alarms.append(_Alarms())):
        called = threading.Event()
        on_another_thread(lambda called=called: alarms[-1].add(time.monotonic(), called.set))
        assert called.wait(LONG)


def test_a_call_scheduled_after_an_interrupted_one_runs_on_time() -> None:
    alarms = _Alarms()
    alarms.add(time.monotonic() + 3600, int)
    for _ in interruptions(lambda: alarms.add(time.monotonic(), int)):
        called = threading.Event()
        on_another_thread(lambda called=called: alarms.add(time.monotonic() + 0.001, called.set))
        assert called.wait(LONG)
