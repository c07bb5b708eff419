"""A clock that stands still until it is advanced."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.clock import Clock, Duration
from statewright.testing import FakeClock

LONG = 600.0
"""Seconds after which a test fails. No passing test waits this long."""


class State(TypedDict, total=False):
    n: int


def test_it_implements_the_port() -> None:
    assert isinstance(FakeClock(), Clock)


def test_it_stands_still_at_its_start() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    clock = FakeClock(start)
    assert [clock.now(), clock.now()] == [start, start]
    assert (clock.monotonic(), FakeClock().now().tzinfo) == (0.0, UTC)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([2.5], 2.5), ([timedelta(minutes=1)], 60.0), ([1, timedelta(seconds=0.5), 2], 3.5), ([0], 0.0)],
)
def test_time_passes_when_it_is_advanced(steps: list[Duration], expected: float) -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    for step in steps:
        clock.advance(step)
    assert clock.monotonic() == expected
    assert clock.now() == datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=expected)


@pytest.mark.parametrize("step", [-1, -0.001, timedelta(seconds=-1)])
def test_time_cannot_go_back(step: Duration) -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(step)
    assert clock.monotonic() == 0.0


def test_calls_run_in_the_order_of_their_due_times_and_not_earlier() -> None:
    clock, calls = FakeClock(), list[tuple[str, float]]()
    for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("late", 10.0)):
        clock.call_later(seconds, lambda name=name: calls.append((name, clock.monotonic())))
    clock.advance(0.5)
    assert calls == []
    clock.advance(3)
    assert calls == [("a", 1.0), ("b", 1.0), ("c", 3.0)]
    assert clock.monotonic() == 3.5


def test_a_call_that_is_due_exactly_now_runs() -> None:
    clock, calls = FakeClock(), list[str]()
    clock.call_later(2, lambda: calls.append("called"))
    clock.advance(2)
    assert calls == ["called"]


def test_a_cancelled_call_does_not_run() -> None:
    clock, calls = FakeClock(), list[str]()
    clock.call_later(1, lambda: calls.append("cancelled")).cancel()
    clock.call_later(2, lambda: calls.append("called"))
    clock.advance(5)
    assert calls == ["called"]


def test_a_call_can_schedule_another_that_is_due_in_the_same_advance() -> None:
    clock, calls = FakeClock(), list[float]()

    def tick() -> None:
        calls.append(clock.monotonic())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)
    assert calls == [1.0, 2.0, 3.0]


def test_a_call_in_the_past_is_due_now() -> None:
    clock, calls = FakeClock(), list[float]()
    clock.advance(5)
    clock.call_later(-3, lambda: calls.append(clock.monotonic()))
    clock.advance(0)
    assert calls == [5.0]


def test_a_wait_ends_when_the_clock_is_advanced() -> None:
    clock, woken = FakeClock(), threading.Event()
    waiter = threading.Thread(target=clock.wait, args=(woken, 60), daemon=True)
    waiter.start()
    for _ in range(20_000):
        clock.advance(1)
        waiter.join(0.001)
        if not waiter.is_alive():
            break
    assert not waiter.is_alive()
    assert not woken.is_set()


def test_a_wait_ends_when_its_event_is_set() -> None:
    clock, woken = FakeClock(), threading.Event()
    waiter = threading.Thread(target=clock.wait, args=(woken, 60), daemon=True)
    waiter.start()
    woken.set()
    waiter.join(LONG)
    assert not waiter.is_alive()
    assert clock.monotonic() == 0.0


def test_a_jumping_clock_ends_every_wait_at_once() -> None:
    clock, calls = FakeClock(jumps=True), list[float]()
    clock.call_later(10, lambda: calls.append(clock.monotonic()))
    clock.wait(threading.Event(), 60)
    assert calls == [10.0]
    assert clock.monotonic() in (60.0, 70.0), "the first jump may come before the wait begins"


def test_a_jumping_clock_stops_at_the_call_that_ends_the_wait() -> None:
    clock, woken = FakeClock(jumps=True), threading.Event()
    clock.call_later(10, woken.set)
    clock.wait(woken, 60)
    assert clock.monotonic() == 10.0


def test_run_executes_coroutines_that_wait_for_the_clock_at_once() -> None:
    clock = FakeClock()

    async def sleep(seconds: float) -> float:
        done = asyncio.get_running_loop().create_future()
        clock.call_later(seconds, lambda: done.set_result(None))
        await done
        return clock.monotonic()

    async def both() -> Any:
        return await asyncio.gather(sleep(3600), sleep(60))

    assert asyncio.run(clock.run(both())) == [3600.0, 60.0]


def test_run_raises_the_exception_of_the_coroutine() -> None:
    async def fail() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        asyncio.run(FakeClock().run(fail()))


def test_run_waits_for_a_coroutine_that_waits_for_a_thread() -> None:
    assert asyncio.run(FakeClock().run(asyncio.to_thread(lambda: "done"))) == "done"


def test_a_callback_can_advance_the_clock_further() -> None:
    clock = FakeClock()
    clock.call_later(1, lambda: clock.advance(10))
    clock.advance(2)
    assert clock.monotonic() == 11


def test_commits_have_the_time_of_the_clock() -> None:
    clock = FakeClock()
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), clock=clock)
    app.invoke({}, thread_id="1")
    clock.advance(60)
    app.invoke({}, thread_id="1")
    times = [state.created_at for state in app.get_state_history(thread_id="1")]
    assert [(time - times[-1]).total_seconds() for time in times if time and times[-1]] == [60, 60, 0, 0]
