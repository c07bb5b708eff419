"""Asynchronous generators that a library abandons."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from statewright.models.providers.stream_cleanup import close_generators, nested_generators


def test_nested_generators_are_found_and_closed_from_the_inside_out() -> None:
    closed: list[str] = []

    async def wrap(name: str, inner: AsyncGenerator[int] | None = None) -> AsyncGenerator[int]:
        try:
            async for item in inner or numbers():
                yield item
        finally:
            closed.append(name)

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(9):
                yield number
        finally:
            closed.append("numbers")

    async def close_abandoned() -> None:
        held: dict[str, Any] = {"response": wrap("outer", wrap("inner"))}
        assert await anext(held["response"]) == 0
        generators = nested_generators(held)
        assert [generator.__name__ for generator in generators] == ["wrap", "wrap", "numbers"]
        await close_generators(generators)
        await close_generators(generators)

    asyncio.run(close_abandoned())
    assert closed == ["numbers", "inner", "outer"]


def test_a_running_generator_is_not_closed() -> None:
    async def closes_itself(holder: list[Any]) -> AsyncGenerator[int]:
        await close_generators(holder)
        yield 1

    async def read_all() -> list[int]:
        holder: list[Any] = []
        holder.append(closes_itself(holder))
        return [number async for number in holder[0]]

    assert asyncio.run(read_all()) == [1]
