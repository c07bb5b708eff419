"""Asynchronous iterators that run in their own task."""

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


def test_items_arrive_in_order() -> None:
    async def read() -> list[int]:
        return [item async for item in run_in_own_task(numbers(log))]

    log: list[str] = []
    assert asyncio.run(read()) == [0, 1, 2]
    assert log == ["closed"]


def test_an_error_is_raised_after_the_items_before_it() -> None:
    async def read() -> None:
        async for item in run_in_own_task(numbers([], fail=True)):
            seen.append(item)

    seen: list[int] = []
    with pytest.raises(LookupError, match="no more"):
        asyncio.run(read())
    assert seen == [0, 1, 2]


def test_closing_the_stream_closes_the_iterator() -> None:
    async def read() -> list[str]:
        async with aclosing(run_in_own_task(numbers(log, wait=10))) as items:
            assert await anext(items) == 0
        return list(log)

    log: list[str] = []
    assert asyncio.run(read()) == ["closed"]


def test_an_abandoned_iterator_is_closed_when_the_event_loop_ends() -> None:
    async def read() -> None:
        abandoned.append(run_in_own_task(numbers(log, wait=10)))
        await anext(abandoned[0])

    log: list[str] = []
    abandoned: list[AsyncGenerator[int]] = []
    asyncio.run(read())
    assert log == ["closed"]


def test_cancelling_the_reader_closes_the_iterator() -> None:
    async def read() -> None:
        async with asyncio.timeout(0.02):
            async for _ in run_in_own_task(numbers(log, wait=10)):
                pass

    log: list[str] = []
    with pytest.raises(TimeoutError):
        asyncio.run(read())
    assert log == ["closed"]


def test_errors_after_closing_are_not_reported() -> None:
    async def read() -> list[object]:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with aclosing(run_in_own_task(numbers([], fail=True))) as items:
            await anext(items)
            await asyncio.sleep(0.01)
        return reported

    assert asyncio.run(read()) == []
