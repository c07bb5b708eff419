"""Private event loops: each has one borrower at a time, and the last returned is borrowed first."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import Any

import pytest

from statewright import RunControl
from statewright.errors import RunCancelled
from statewright.runtime.concurrency.private_loop import (
    borrow_loop,
    return_loop,
    run_on_private_loop,
    run_on_this_thread,
)


def run_on(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(600)


async def current_location() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_a_borrowed_loop_runs_in_its_own_daemon_thread() -> None:
    loop = borrow_loop()
    running, thread = run_on(loop, current_location())
    return_loop(loop, idle=True)
    assert running is loop
    assert (thread.daemon, thread.name) == (True, "statewright-loop")
    assert thread is not threading.current_thread()


def test_borrowed_loops_are_different() -> None:
    loops = [borrow_loop() for _ in range(3)]
    for loop in loops:
        return_loop(loop, idle=True)
    assert len(set(loops)) == 3


def test_the_last_returned_loop_is_borrowed_first() -> None:
    first, second = borrow_loop(), borrow_loop()
    return_loop(first, idle=True)
    return_loop(second, idle=True)
    last = borrow_loop()
    return_loop(last, idle=True)
    assert last is second


def test_a_busy_loop_is_borrowed_again_only_after_it_becomes_idle() -> None:
    loop, proceed = borrow_loop(), threading.Event()
    loop.call_soon_threadsafe(proceed.wait)
    return_loop(loop, idle=False)
    meanwhile = borrow_loop()
    assert meanwhile is not loop
    proceed.set()
    run_on(loop, current_location())  # so that it has run once
    last = borrow_loop()
    return_loop(last, idle=True)
    return_loop(meanwhile, idle=True)
    assert last is loop


def test_run_on_private_loop_returns_the_result() -> None:
    async def add(left: int, right: int) -> int:
        await asyncio.sleep(0)
        return left + right

    assert run_on_private_loop(add, 1, 2) == 3


def test_run_on_private_loop_raises_errors_and_returns_the_loop() -> None:
    async def fail() -> None:
        raise LookupError("no luck")

    loop = borrow_loop()
    return_loop(loop, idle=True)
    with pytest.raises(LookupError, match="no luck"):
        run_on_private_loop(fail)
    last = borrow_loop()
    return_loop(last, idle=True)
    assert last is loop


def test_nested_calls_of_run_on_private_loop_use_different_loops() -> None:
    async def outer(depth: int) -> list[Any]:
        own = asyncio.get_running_loop()
        return [own, *(run_on_private_loop(outer, depth - 1) if depth else [])]

    loops = run_on_private_loop(outer, 3)
    assert len(set(loops)) == 4


def test_successive_calls_reuse_a_loop() -> None:
    assert run_on_private_loop(current_location)[0] is run_on_private_loop(current_location)[0]


def test_a_private_loop_is_the_event_loop_of_its_thread() -> None:
    async def policy_loop() -> bool:
        return asyncio.get_event_loop() is asyncio.get_running_loop()

    assert run_on_private_loop(policy_loop)


# -- on the current thread


def test_run_on_this_thread_uses_one_loop_in_the_current_thread() -> None:
    loop, thread = run_on_this_thread(current_location)
    assert thread is threading.current_thread()
    assert not loop.is_running()
    assert run_on_this_thread(current_location)[0] is loop, "the loop is reused, so that clients bound to it stay valid"


def test_run_on_this_thread_inside_a_loop_uses_another_thread() -> None:
    async def nested() -> Any:
        return run_on_this_thread(current_location)

    _, thread = asyncio.run(nested())
    assert thread.name == "statewright-loop"


def test_run_on_this_thread_uses_different_loops_in_two_threads() -> None:
    barrier, loops = threading.Barrier(2), list[Any]()

    async def meet() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.to_thread(barrier.wait, 20)

    threads = [threading.Thread(target=run_on_this_thread, args=(meet,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert len(set(map(id, loops))) == 2


def test_run_on_this_thread_raises_errors_and_keeps_the_loop() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_on_this_thread(fail)
    assert run_on_this_thread(current_location)[1] is threading.current_thread()


def test_a_control_cancels_run_on_this_thread() -> None:
    control, ended = RunControl(), list[str]()

    async def wait() -> None:
        threading.Timer(0.02, control.request_cancel, ["enough"]).start()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    with pytest.raises(RunCancelled, match="enough"):
        run_on_this_thread(wait, control=control)
    assert ended == ["cleaned up"]
    assert control.has_stopped


def test_run_on_this_thread_cleans_up_after_a_keyboard_interrupt() -> None:
    ended = list[str]()

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_on_this_thread(wait)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["cleaned up"]
