"""Waiting on an event loop: for a slot of a concurrency limit."""

import asyncio
import threading
from typing import Any

import pytest

from statewright import START
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.tasks.retries_async import acquire_slot_async


@pytest.fixture
def scope(make: Any) -> Any:
    run = make.run(make.program(make.graph("a").add_edge(START, "a")))
    return make.scope(run, make.task("a"), make.checkpoint())


@pytest.mark.parametrize("is_offered_first", [False, True])
def test_a_dropped_coroutine_leaves_its_slot_to_others(scope: Any, is_offered_first: bool) -> None:
    slots = Slots(1)

    async def drop_while_waiting() -> None:
        waiting = acquire_slot_async(slots, scope)
        waiting.send(None)
        if is_offered_first:
            slots.release()
        waiting.close()
        if not is_offered_first:
            slots.release()
        await asyncio.sleep(0)

    assert slots.acquire(lambda: False)
    asyncio.run(drop_while_waiting())
    assert slots.acquire(lambda: False)


@pytest.mark.parametrize("is_offered_first", [False, True])
def test_a_coroutine_of_a_closed_event_loop_leaves_its_slot_to_others(scope: Any, is_offered_first: bool) -> None:
    slots = Slots(1)
    loop = asyncio.new_event_loop()

    async def wait() -> Any:
        waiting = acquire_slot_async(slots, scope)
        waiting.send(None)
        return waiting

    assert slots.acquire(lambda: False)
    waiting = loop.run_until_complete(wait())
    if is_offered_first:
        slots.release()
    loop.close()
    waiting.close()
    if not is_offered_first:
        slots.release()

    has_slot = threading.Event()
    assert slots.acquire(lambda: has_slot.set() or True) or has_slot.wait(600)
