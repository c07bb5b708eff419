"""A clock that stands still until it is told to go on."""

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
"""Seconds after which a test is given up. No test waits that long if it passes."""


class State(TypedDict, total=False):
    n: int


def test_it_obeys_the_port() -> None:
    assert isinstance(FakeClock(), Clock)


def test_it_starts_where_it_is_told_and_stands_still() -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    clock = FakeClock(start)
    assert [clock.now(), clock.now()] == [start, start]
    assert (clock.monotonic(), FakeClock().now().tzinfo) == (0.0, UTC)


@pytest.mark.parametrize(
    ("steps", "passed"),
    [([2.5], 2.5), ([timedelta(minutes=1)], 60.0), ([1, timedelta(seconds=0.5), 2], 3.5), ([0], 0.0)],
)
def test_time_passes_when_it_is_advanced(steps: list[Duration], passed: float) -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    for step in steps:
        clock.advance(step)
    assert clock.monotonic() == passed
    assert clock.now() == datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=passed)


@pytest.mark.parametrize("back", [-1, -0.001, timedelta(seconds=-1)])
def test_time_does_not_go_back(back: Duration) -> None:
    clock = FakeClock()
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(back)
    assert clock.monotonic() == 0.0


def test_calls_are_made_in_the_order_in_which_they_fall_due_and_not_before() -> None:
    clock, made = FakeClock(), list[tuple[str, float]]()
    for name, seconds in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("late", 10.0)):
        clock.call_later(seconds, lambda name=name: made.append((name, clock.monotonic())))
    clock.advance(0.5)
    assert made == []
    clock.advance(3)
    assert made == [("a", 1.0), ("b", 1.0), ("c", 3.0)]
    assert clock.monotonic() == 3.5


def test_a_call_that_is_due_at_the_very_instant_is_made() -> None:
    clock, made = FakeClock(), list[str]()
    clock.call_later(2, lambda: made.append("made"))
    clock.advance(2)
    assert made == ["made"]


def test_a_call_that_is_cancelled_is_not_made() -> None:
    clock, made = FakeClock(), list[str]()
    clock.call_later(1, lambda: made.append("cancelled")).cancel()
    clock.call_later(2, lambda: made.append("made"))
    clock.advance(5)
    assert made == ["made"]


def test_a_call_may_ask_for_another_that_falls_due_meanwhile() -> None:
    clock, made = FakeClock(), list[float]()

    def tick() -> None:
        made.append(clock.monotonic())
        clock.call_later(1, tick)

    clock.call_later(1, tick)
    clock.advance(3.5)
    assert made == [1.0, 2.0, 3.0]


def test_a_call_in_the_past_is_due_now() -> None:
    clock, made = FakeClock(), list[float]()
    clock.advance(5)
    clock.call_later(-3, lambda: made.append(clock.monotonic()))
    clock.advance(0)
    assert made == [5.0]


def test_a_wait_ends_when_somebody_lets_time_pass() -> None:
    clock, woken = FakeClock(), threading.Event()
    waiting = threading.Thread(target=clock.wait, args=(woken, 60), daemon=True)
    waiting.start()
    for _ in range(20_000):
        clock.advance(1)
        waiting.join(0.001)
        if not waiting.is_alive():
            break
    assert not waiting.is_alive()
    assert not woken.is_set()


def test_a_wait_ends_when_it_is_woken_though_no_time_passes() -> None:
    clock, woken = FakeClock(), threading.Event()
    waiting = threading.Thread(target=clock.wait, args=(woken, 60), daemon=True)
    waiting.start()
    woken.set()
    waiting.join(LONG)
    assert not waiting.is_alive()
    assert clock.monotonic() == 0.0


def test_a_clock_that_jumps_is_past_every_wait_at_once() -> None:
    clock, made = FakeClock(jumps=True), list[float]()
    clock.call_later(10, lambda: made.append(clock.monotonic()))
    clock.wait(threading.Event(), 60)
    assert made == [10.0]
    assert clock.monotonic() in (60.0, 70.0), "the first jump may come before the wait begins"


def test_a_clock_that_jumps_does_not_pass_what_wakes_it() -> None:
    clock, woken = FakeClock(jumps=True), threading.Event()
    clock.call_later(10, woken.set)
    clock.wait(woken, 60)
    assert clock.monotonic() == 10.0


def test_coroutines_that_wait_for_the_clock_are_run_without_waiting() -> None:
    clock = FakeClock()

    async def sleep(seconds: float) -> float:
        over = asyncio.get_running_loop().create_future()
        clock.call_later(seconds, lambda: over.set_result(None))
        await over
        return clock.monotonic()

    async def both() -> Any:
        return await asyncio.gather(sleep(3600), sleep(60))

    assert asyncio.run(clock.run(both())) == [3600.0, 60.0]


def test_what_a_coroutine_raises_comes_through() -> None:
    async def fail() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        asyncio.run(FakeClock().run(fail()))


def test_a_coroutine_that_waits_for_a_thread_is_waited_for() -> None:
    assert asyncio.run(FakeClock().run(asyncio.to_thread(lambda: "done"))) == "done"


def test_a_callback_that_advances_the_clock_further_does_not_set_it_back() -> None:
    clock = FakeClock()
    clock.call_later(1, lambda: clock.advance(10))
    clock.advance(2)
    assert clock.monotonic() == 11


def test_commits_carry_the_time_of_the_clock() -> None:
    clock = FakeClock()
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), clock=clock)
    app.invoke({}, thread_id="1")
    clock.advance(60)
    app.invoke({}, thread_id="1")
    times = [one.created_at for one in app.get_state_history(thread_id="1")]
    assert [(time - times[-1]).total_seconds() for time in times if time and times[-1]] == [60, 60, 0, 0]
