"""Asynchronous iterators in a task of their own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from statewright.models.providers.stream_cleanup import run_in_own_task


async def numbers(log: list[str], *, fail: bool = False, wait: float = 0.0) -> AsyncGenerator[int]:
    try:
        for number in range(3):
            yield number
            await asyncio.sleep(wait)
        if fail:
            raise LookupError("no more")
    finally:
        task = asyncio.current_task()
        log.append("closed" if task is not None else "nowhere")


def test_items_come_in_their_order() -> None:
    async def read() -> list[int]:
        return [item async for item in run_in_own_task(numbers(log))]

    log: list[str] = []
    assert asyncio.run(read()) == [0, 1, 2]
    assert log == ["closed"]


def test_an_error_comes_after_the_items_before_it() -> None:
    async def read() -> None:
        async for item in run_in_own_task(numbers([], fail=True)):
            seen.append(item)

    seen: list[int] = []
    with pytest.raises(LookupError, match="no more"):
        asyncio.run(read())
    assert seen == [0, 1, 2]


def test_a_reader_that_stops_closes_it() -> None:
    async def read() -> list[str]:
        async with aclosing(run_in_own_task(numbers(log, wait=10))) as items:
            assert await anext(items) == 0
        return list(log)

    log: list[str] = []
    assert asyncio.run(read()) == ["closed"]


def test_a_reader_that_only_leaves_closes_it_when_the_loop_ends() -> None:
    async def read() -> None:
        kept.append(run_in_own_task(numbers(log, wait=10)))
        await anext(kept[0])

    log: list[str] = []
    kept: list[AsyncGenerator[int]] = []
    asyncio.run(read())
    assert log == ["closed"]


def test_a_cancelled_reader_cancels_it() -> None:
    async def read() -> None:
        async with asyncio.timeout(0.02):
            async for _ in run_in_own_task(numbers(log, wait=10)):
                pass

    log: list[str] = []
    with pytest.raises(TimeoutError):
        asyncio.run(read())
    assert log == ["closed"]


def test_nobody_hears_of_an_error_after_the_reader_has_left() -> None:
    async def read() -> list[object]:
        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        async with aclosing(run_in_own_task(numbers([], fail=True))) as items:
            await anext(items)
            await asyncio.sleep(0.01)
        return heard

    assert asyncio.run(read()) == []
