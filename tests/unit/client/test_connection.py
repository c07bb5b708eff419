"""Coroutines of a blocking connection are completed without an event loop."""

from __future__ import annotations

import asyncio

import pytest

from statewright.client.connection import complete


async def result() -> int:
    return 3


async def failure() -> int:
    raise ValueError("broken")


async def suspension() -> None:
    await asyncio.sleep(0)


def test_a_coroutine_is_completed_in_one_step() -> None:
    assert complete(result()) == 3
    with pytest.raises(ValueError, match="broken"):
        complete(failure())


def test_a_coroutine_is_completed_on_the_thread_of_a_running_event_loop() -> None:
    async def complete_inside() -> int:
        return complete(result())

    assert asyncio.run(complete_inside()) == 3


def test_a_coroutine_that_suspends_is_refused() -> None:
    with pytest.raises(AssertionError, match="suspended"):
        complete(suspension())
