"""Streams are closed when their reader stops."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from statewright.models.port import closing

log: list[str] = []


async def numbers() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


class Endless:
    """An endless stream without a method to close it."""

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


def test_a_stream_is_closed_when_its_reader_stops() -> None:
    async def read() -> None:
        log.clear()
        assert await first_of(numbers()) == 1
        assert log == ["closed"]

    asyncio.run(read())


def test_a_stream_is_closed_after_an_error() -> None:
    async def read() -> None:
        log.clear()
        with pytest.raises(ZeroDivisionError):
            await failing_reader()
        assert log == ["closed"]

    asyncio.run(read())


def test_streams_without_aclose_are_accepted() -> None:
    assert asyncio.run(first_of(Endless())) == 1
