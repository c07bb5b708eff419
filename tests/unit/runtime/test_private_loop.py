"""Event loops that are lent: each to one borrower at a time, the last one given back first."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statewright.runtime.private_loop import borrow_loop, give_back, run_privately


def on(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result(20)


async def where() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    return asyncio.get_running_loop(), threading.current_thread()


def test_a_borrowed_loop_runs_on_a_daemon_thread_of_its_own() -> None:
    loop = borrow_loop()
    running, thread = on(loop, where())
    give_back(loop, idle=True)
    assert running is loop
    assert (thread.daemon, thread.name) == (True, "statewright-loop")
    assert thread is not threading.current_thread()


def test_nobody_shares_a_loop() -> None:
    loops = [borrow_loop() for _ in range(3)]
    for loop in loops:
        give_back(loop, idle=True)
    assert len(set(loops)) == 3


def test_the_loop_given_back_last_comes_first() -> None:
    one, other = borrow_loop(), borrow_loop()
    give_back(one, idle=True)
    give_back(other, idle=True)
    again = borrow_loop()
    give_back(again, idle=True)
    assert again is other


def test_a_busy_loop_is_lent_again_when_it_finds_time() -> None:
    loop, go_on = borrow_loop(), threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    give_back(loop, idle=False)
    meanwhile = borrow_loop()
    assert meanwhile is not loop
    go_on.set()
    on(loop, where())  # it has turned once
    again = borrow_loop()
    give_back(again, idle=True)
    give_back(meanwhile, idle=True)
    assert again is loop


def test_a_coroutine_function_is_called_privately_for_its_answer() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        return one + other

    assert run_privately(add, 1, 2) == 3


def test_what_a_coroutine_raises_comes_through_and_the_loop_is_given_back() -> None:
    async def fail() -> None:
        raise LookupError("no luck")

    loop = borrow_loop()
    give_back(loop, idle=True)
    with pytest.raises(LookupError, match="no luck"):
        run_privately(fail)
    again = borrow_loop()
    give_back(again, idle=True)
    assert again is loop


def test_a_coroutine_that_blocks_its_loop_for_another_one_gets_its_answer() -> None:
    async def outer(depth: int) -> list[Any]:
        own = asyncio.get_running_loop()
        return [own, *(run_privately(outer, depth - 1) if depth else [])]

    loops = run_privately(outer, 3)
    assert len(set(loops)) == 4


def test_one_after_another_calls_share_a_loop() -> None:
    assert run_privately(where)[0] is run_privately(where)[0]


def test_the_loop_is_the_event_loop_of_its_thread() -> None:
    async def policy_loop() -> bool:
        return asyncio.get_event_loop() is asyncio.get_running_loop()

    assert run_privately(policy_loop)
