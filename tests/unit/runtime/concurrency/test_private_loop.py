"""Event loops that are lent: each to one borrower at a time, the last one given back first."""

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


def on(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(600)


async def where() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_a_borrowed_loop_runs_on_a_daemon_thread_of_its_own() -> None:
    loop = borrow_loop()
    running, thread = on(loop, where())
    return_loop(loop, idle=True)
    assert running is loop
    assert (thread.daemon, thread.name) == (True, "statewright-loop")
    assert thread is not threading.current_thread()


def test_nobody_shares_a_loop() -> None:
    loops = [borrow_loop() for _ in range(3)]
    for loop in loops:
        return_loop(loop, idle=True)
    assert len(set(loops)) == 3


def test_the_loop_given_back_last_comes_first() -> None:
    first, second = borrow_loop(), borrow_loop()
    return_loop(first, idle=True)
    return_loop(second, idle=True)
    again = borrow_loop()
    return_loop(again, idle=True)
    assert again is second


def test_a_busy_loop_is_lent_again_when_it_finds_time() -> None:
    loop, go_on = borrow_loop(), threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    return_loop(loop, idle=False)
    meanwhile = borrow_loop()
    assert meanwhile is not loop
    go_on.set()
    on(loop, where())  # it has turned once
    again = borrow_loop()
    return_loop(again, idle=True)
    return_loop(meanwhile, idle=True)
    assert again is loop


def test_a_coroutine_function_is_called_privately_for_its_answer() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    assert run_on_private_loop(add, 1, 2) == 3


def test_what_a_coroutine_raises_comes_through_and_the_loop_is_given_back() -> None:
    async def fail() -> None:
        raise LookupError("no luck")

    loop = borrow_loop()
    return_loop(loop, idle=True)
    with pytest.raises(LookupError, match="no luck"):
        run_on_private_loop(fail)
    again = borrow_loop()
    return_loop(again, idle=True)
    assert again is loop


def test_a_coroutine_that_blocks_its_loop_for_another_one_gets_its_answer() -> None:
    async def outer(depth: int) -> list[Any]:
        own = asyncio.get_running_loop()
        return [own, *(run_on_private_loop(outer, depth - 1) if depth else [])]

    loops = run_on_private_loop(outer, 3)
    assert len(set(loops)) == 4


def test_one_after_another_calls_share_a_loop() -> None:
    assert run_on_private_loop(where)[0] is run_on_private_loop(where)[0]


def test_the_loop_is_the_event_loop_of_its_thread() -> None:
    async def policy_loop() -> bool:
        return asyncio.get_event_loop() is asyncio.get_running_loop()

    assert run_on_private_loop(policy_loop)


# -- on the present thread


def test_a_coroutine_runs_here_on_a_loop_that_runs_for_it_alone() -> None:
    loop, thread = run_on_this_thread(where)
    assert thread is threading.current_thread()
    assert not loop.is_running()
    assert run_on_this_thread(where)[0] is loop, "the same loop serves the next one: clients that are bound to it last"


def test_within_a_loop_it_runs_on_another_thread() -> None:
    async def nested() -> Any:
        return run_on_this_thread(where)

    _, thread = asyncio.run(nested())
    assert thread.name == "statewright-loop"


def test_two_threads_do_not_share_a_loop() -> None:
    together, loops = threading.Barrier(2), list[Any]()

    async def meet() -> None:
        loops.append(asyncio.get_running_loop())
        await asyncio.to_thread(together.wait, 20)

    threads = [threading.Thread(target=run_on_this_thread, args=(meet,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert len(set(map(id, loops))) == 2


def test_what_it_raises_is_raised_and_the_loop_serves_on() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_on_this_thread(fail)
    assert run_on_this_thread(where)[1] is threading.current_thread()


def test_a_control_cancels_it() -> None:
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


def test_an_interrupt_from_the_keyboard_lets_it_clean_up() -> None:
    ended = list[str]()

    async def wait() -> None:
        asyncio.get_running_loop().call_later(0.02, signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cleaned up")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_on_this_thread(wait)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["cleaned up"]
