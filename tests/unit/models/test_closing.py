"""Streams are closed when their reader stops."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from statewright.models.port import closing

ended: list[str] = []


async def numbers() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        ended.append("ended")


class Endless:
    """A stream that knows no end and no closing."""

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        return 1


async def failing_reader() -> None:
    async with closing(numbers()) as events:
        async for _ in events:
            raise ZeroDivisionError


async def first_of(stream: AsyncIterator[int]) -> int:
    async with closing(stream) as events:
        async for event in events:
            return event
    return 0


def test_the_stream_is_closed_when_its_reader_leaves() -> None:
    async def read() -> None:
        ended.clear()
        assert await first_of(numbers()) == 1
        assert ended == ["ended"]

    asyncio.run(read())


def test_it_is_closed_after_an_error_too() -> None:
    async def read() -> None:
        ended.clear()
        with pytest.raises(ZeroDivisionError):
            await failing_reader()
        assert ended == ["ended"]

    asyncio.run(read())


def test_a_stream_that_cannot_be_closed_is_left() -> None:
    assert asyncio.run(first_of(Endless())) == 1
