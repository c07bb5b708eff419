"""The hub publishes saved events to the listeners of a run."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack
from datetime import datetime

import pytest

from statewright.runs import RunEvent
from statewright.service.following.hub import Hub


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def event(run_id: str, seq: int, now: datetime) -> RunEvent:
    return RunEvent(run_id, seq, "X", {}, None, now)


@pytest.mark.anyio
async def test_listeners_receive_the_events_of_their_run_in_order(now: datetime) -> None:
    hub = Hub()
    with hub.listening("a") as first, hub.listening("a") as second, hub.listening("b") as other:
        assert hub.listener_count == 3
        hub.publish([event("a", 1, now), event("a", 2, now)])
        hub.publish([event("a", 3, now)])
        hub.publish([])
        assert [item.seq for item in hub.take_events(first)] == [1, 2, 3]
        assert hub.take_events(first) == []
        assert [item.seq for item in hub.take_events(second)] == [1, 2, 3]
        assert hub.take_events(other) == []
    assert hub.listener_count == 0


@pytest.mark.anyio
async def test_events_from_another_thread_wake_a_listener_at_once(now: datetime) -> None:
    hub = Hub()
    with hub.listening("a") as listener:
        timer = threading.Timer(0.01, lambda: hub.publish([event("a", 1, now)]))
        timer.start()
        started_at = time.monotonic()
        await listener.wait_for_activity(10)
        assert time.monotonic() - started_at < 5
        assert len(hub.take_events(listener)) == 1
        timer.join()


@pytest.mark.anyio
async def test_a_listener_waits_no_longer_than_its_timeout() -> None:
    hub = Hub()
    with hub.listening("a") as listener:
        await listener.wait_for_activity(0.01)
        assert hub.take_events(listener) == []


@pytest.mark.anyio
async def test_a_listener_with_queued_events_does_not_wait(now: datetime) -> None:
    hub = Hub()
    with hub.listening("a") as listener:
        hub.publish([event("a", 1, now)])
        await listener.wait_for_activity(10)
        hub.take_events(listener)
        hub.publish([event("a", 2, now)])
        await listener.wait_for_activity(10)
        assert [item.seq for item in hub.take_events(listener)] == [2]


def test_a_listener_whose_event_loop_is_closed_does_not_affect_others(now: datetime) -> None:
    hub = Hub()
    with ExitStack() as stack:

        async def open_listener() -> None:
            stack.enter_context(hub.listening("a"))

        async def receive() -> list[int | None]:
            with hub.listening("a") as other:
                hub.publish([event("a", 3, now)])
                return [getattr(item, "seq", None) for item in hub.take_events(other)]

        asyncio.run(open_listener())
        assert hub.listener_count == 1
        hub.publish([event("a", 1, now)])
        hub.publish([event("a", 2, now)])
        assert asyncio.run(receive()) == [3]


@pytest.mark.anyio
async def test_an_expected_listener_misses_nothing_and_others_get_only_what_is_new(now: datetime) -> None:
    hub = Hub()
    hub.expect_listener("a")
    assert hub.has_listeners("a")
    hub.publish([event("a", 1, now)])
    with (
        hub.listening("a") as other,
        hub.listening("a", is_expected=True) as first,
        hub.listening("a", is_expected=True) as second,
    ):
        hub.publish([event("a", 2, now)])
        assert [item.seq for item in hub.take_events(first)] == [1, 2]
        assert [[item.seq for item in hub.take_events(late)] for late in (other, second)] == [[2], [2]]
    assert hub.listener_count == 0


@pytest.mark.anyio
async def test_a_listener_that_does_not_come_is_no_longer_expected() -> None:
    hub = Hub()
    hub.expect_listener("a", seconds=0)
    while hub.has_listeners("a"):
        await asyncio.sleep(0)
    with hub.listening("a", is_expected=True) as listener:
        assert hub.take_events(listener) == []
