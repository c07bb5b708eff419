"""The clock of a test service, which advances in jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from statewright.service.background.background_tasks import Background
from statewright.testing.service.clock import HOUSEKEEPING, ServiceClock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_jump_runs_due_calls_in_order() -> None:
    clock, calls = ServiceClock(BEGIN), []
    clock.call_later(20, lambda: calls.append(20))
    clock.call_later(10, lambda: calls.append(10))
    clock.call_later(30, lambda: calls.append(30))
    clock.jump_to(BEGIN + timedelta(seconds=20))
    assert (calls, clock.now()) == ([10, 20], BEGIN + timedelta(seconds=20))
    clock.jump_to(BEGIN)
    assert clock.now() == BEGIN + timedelta(seconds=20)


def test_a_call_scheduled_during_a_jump_runs_later() -> None:
    """Otherwise, calls that reschedule themselves would run for ever."""
    clock, calls = ServiceClock(BEGIN), []

    def again() -> None:
        calls.append(clock.now())
        clock.call_later(0, again)

    clock.call_later(1, again)
    clock.jump_to(BEGIN + timedelta(days=365))
    assert calls == [BEGIN + timedelta(days=365)]


def test_an_instant_is_reached_exactly() -> None:
    """The seconds since the start are a float, too imprecise for microseconds after centuries."""
    clock = ServiceClock(BEGIN)
    for days in range(1, 200_000, 777):
        instant = BEGIN + timedelta(days=days, microseconds=1)
        clock.jump_to(instant)
        assert clock.now() >= instant
        assert clock.now() - instant < timedelta(milliseconds=1)


@given(st.floats(min_value=0, max_value=1e10))
def test_a_jump_to_a_wait_time_runs_its_call(seconds: float) -> None:
    """Instants are rounded to microseconds, but seconds are not."""
    clock, calls = ServiceClock(BEGIN), []
    clock.call_later(seconds, lambda: calls.append(seconds))
    clock.jump_to(clock.wait_times()[0])
    assert calls == [seconds]
    assert clock.wait_times() == []


def test_housekeeping_does_not_count_as_a_wait() -> None:
    clock = ServiceClock(BEGIN)
    background = Background([], clock)
    clock.call_later(5, background.wake)
    assert (clock.wait_times(), clock.scheduled_calls) == ([], 0)
    timer = clock.call_later(7, lambda: None)
    assert (clock.wait_times(), clock.scheduled_calls) == ([BEGIN + timedelta(seconds=7)], 1)
    timer.cancel()
    assert clock.wait_times() == []


def test_every_housekeeping_module_exists() -> None:
    from importlib import import_module

    assert all(import_module(name) for name in HOUSEKEEPING)
