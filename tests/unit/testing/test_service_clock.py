"""The clock that goes on in jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from statewright.service.background.background_tasks import Background
from statewright.testing.service.clock import HOUSEKEEPING, ServiceClock

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_jump_makes_the_calls_that_are_due_in_their_order() -> None:
    clock, rung = ServiceClock(BEGIN), []
    clock.call_later(20, lambda: rung.append(20))
    clock.call_later(10, lambda: rung.append(10))
    clock.call_later(30, lambda: rung.append(30))
    clock.jump_to(BEGIN + timedelta(seconds=20))
    assert (rung, clock.now()) == ([10, 20], BEGIN + timedelta(seconds=20))
    clock.jump_to(BEGIN)
    assert clock.now() == BEGIN + timedelta(seconds=20)


def test_what_is_asked_for_in_a_jump_comes_later() -> None:
    """Calls that ask to be called again would else go on for ever."""
    clock, rung = ServiceClock(BEGIN), []

    def again() -> None:
        rung.append(clock.now())
        clock.call_later(0, again)

    clock.call_later(1, again)
    clock.jump_to(BEGIN + timedelta(days=365))
    assert rung == [BEGIN + timedelta(days=365)]


def test_an_instant_is_reached_exactly() -> None:
    """Seconds since the beginning are a float, which has too few digits for microseconds after centuries."""
    clock = ServiceClock(BEGIN)
    for days in range(1, 200_000, 777):
        instant = BEGIN + timedelta(days=days, microseconds=1)
        clock.jump_to(instant)
        assert clock.now() >= instant
        assert clock.now() - instant < timedelta(milliseconds=1)


@given(st.floats(min_value=0, max_value=1e10))
def test_a_jump_to_what_is_awaited_makes_the_call(seconds: float) -> None:
    """Instants have microseconds, and seconds many more digits."""
    clock, rung = ServiceClock(BEGIN), []
    clock.call_later(seconds, lambda: rung.append(seconds))
    clock.jump_to(clock.wait_times()[0])
    assert rung == [seconds]
    assert clock.wait_times() == []


def test_housekeeping_is_no_wait() -> None:
    clock = ServiceClock(BEGIN)
    background = Background([], clock)
    clock.call_later(5, background.wake)
    assert (clock.wait_times(), clock.requests) == ([], 0)
    timer = clock.call_later(7, lambda: None)
    assert (clock.wait_times(), clock.requests) == ([BEGIN + timedelta(seconds=7)], 1)
    timer.cancel()
    assert clock.wait_times() == []


def test_housekeeping_is_in_modules_that_there_are() -> None:
    from importlib import import_module

    assert all(import_module(name) for name in HOUSEKEEPING)
