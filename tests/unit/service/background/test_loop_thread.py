"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from statewright.service.background.loop_thread import LoopThread


@pytest.fixture
def thread() -> LoopThread:
    return LoopThread("a-loop")


async def where_am_i() -> str:
    return threading.current_thread().name


def test_coroutines_run_on_the_thread(thread: LoopThread) -> None:
    thread.start()
    try:
        assert thread.submit(where_am_i()).result(600) == "a-loop"
        assert threading.current_thread().name != "a-loop"
    finally:
        thread.stop()


def test_errors_of_coroutines_are_raised(thread: LoopThread) -> None:
    async def breaks() -> None:
        raise ValueError("no luck")

    thread.start()
    try:
        with pytest.raises(ValueError, match="no luck"):
            thread.submit(breaks()).result(600)
        assert thread.submit(where_am_i()).result(600) == "a-loop"
    finally:
        thread.stop()


def test_coroutines_run_concurrently(thread: LoopThread) -> None:
    async def meets(barrier: asyncio.Barrier) -> int:
        async with barrier as place:
            return place

    thread.start()
    try:
        barrier = asyncio.Barrier(3)
        assert {item.result(600) for item in [thread.submit(meets(barrier)) for _ in range(3)]} == {0, 1, 2}
    finally:
        thread.stop()


def test_stopping_cancels_tasks_and_ends_the_thread(thread: LoopThread) -> None:
    begun, seen = threading.Event(), list[str]()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(threading.current_thread().name)
            raise

    thread.start()
    work = thread.submit(waits())
    assert begun.wait(600)
    thread.stop()
    assert (seen, work.cancelled()) == (["a-loop"], True)
    assert "a-loop" not in [item.name for item in threading.enumerate()]


def test_a_task_that_ignores_its_cancellation_is_abandoned_with_a_warning(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    begun, ends = threading.Event(), threading.Event()

    async def ignores() -> None:
        while not ends.is_set():
            try:
                begun.set()
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    thread.start()
    [left] = [item for item in threading.enumerate() if item.name == "a-loop"]
    thread.submit(ignores())
    assert begun.wait(600)
    thread.stop(0.05)
    assert left.is_alive()
    assert "Thread a-loop did not end" in caplog.text
    thread.start()
    try:
        assert thread.submit(where_am_i()).result(600) == "a-loop"
    finally:
        thread.stop()
    ends.set()
    left.join(600)
    assert not left.is_alive()


def test_it_can_be_stopped_at_any_time_and_started_again(thread: LoopThread) -> None:
    thread.stop()
    for _ in range(2):
        thread.start()
        assert thread.submit(where_am_i()).result(600) == "a-loop"
        thread.stop()
        thread.stop()
