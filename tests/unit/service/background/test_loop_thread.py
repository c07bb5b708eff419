"""An event loop on its own thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

from statewright.service.background.loop_thread import LoopThread


@pytest.fixture
def thread() -> LoopThread:
    return LoopThread("a-loop")


async def current_thread_name() -> str:
    return threading.current_thread().name


def test_coroutines_run_on_the_thread(thread: LoopThread) -> None:
    thread.start()
    try:
        assert thread.submit(current_thread_name()).result(600) == "a-loop"
        assert threading.current_thread().name != "a-loop"
    finally:
        thread.stop()


def test_errors_of_coroutines_are_raised(thread: LoopThread) -> None:
    async def fail() -> None:
        raise ValueError("no luck")

    thread.start()
    try:
        with pytest.raises(ValueError, match="no luck"):
            thread.submit(fail()).result(600)
        assert thread.submit(current_thread_name()).result(600) == "a-loop"
    finally:
        thread.stop()


def test_coroutines_run_concurrently(thread: LoopThread) -> None:
    async def meet(barrier: asyncio.Barrier) -> int:
        async with barrier as position:
            return position

    thread.start()
    try:
        barrier = asyncio.Barrier(3)
        assert {item.result(600) for item in [thread.submit(meet(barrier)) for _ in range(3)]} == {0, 1, 2}
    finally:
        thread.stop()


def test_stopping_cancels_tasks_and_ends_the_thread(thread: LoopThread) -> None:
    started, cancelled_on = threading.Event(), list[str]()

    async def wait_forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled_on.append(threading.current_thread().name)
            raise

    thread.start()
    work = thread.submit(wait_forever())
    assert started.wait(600)
    thread.stop()
    assert (cancelled_on, work.cancelled()) == (["a-loop"], True)
    assert "a-loop" not in [item.name for item in threading.enumerate()]


def test_a_task_that_ignores_its_cancellation_is_abandoned_with_a_warning(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    started, may_end = threading.Event(), threading.Event()

    async def ignore_cancellation() -> None:
        while not may_end.is_set():
            try:
                started.set()
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    thread.start()
    [abandoned] = [item for item in threading.enumerate() if item.name == "a-loop"]
    thread.submit(ignore_cancellation())
    assert started.wait(600)
    thread.stop(0.05)
    assert abandoned.is_alive()
    assert "Thread a-loop did not end" in caplog.text
    thread.start()
    try:
        assert thread.submit(current_thread_name()).result(600) == "a-loop"
    finally:
        thread.stop()
    may_end.set()
    abandoned.join(600)
    assert not abandoned.is_alive()


def test_a_thread_can_be_stopped_repeatedly_and_started_again(thread: LoopThread) -> None:
    thread.stop()
    for _ in range(2):
        thread.start()
        assert thread.submit(current_thread_name()).result(600) == "a-loop"
        thread.stop()
        thread.stop()


def test_a_blocked_thread_does_not_respond_and_recovers(thread: LoopThread) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    async def block() -> None:
        has_begun.set()
        may_end.wait(600)

    async def ask() -> None:
        assert await thread.responds(600)
        blocked = thread.submit(block())
        assert has_begun.wait(600)
        assert not await thread.responds(0.01)
        may_end.set()
        await asyncio.wrap_future(blocked)
        assert await thread.responds(600)

    thread.start()
    asyncio.run(ask())
    thread.stop()


def test_a_thread_that_is_not_running_counts_as_responsive(thread: LoopThread) -> None:
    assert asyncio.run(thread.responds(600))
    thread.start()
    thread.stop()
    assert asyncio.run(thread.responds(600))
