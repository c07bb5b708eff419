"""Asynchronous generators that a library drops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from statewright.models.providers.stream_cleanup import close_generators, nested_generators


def test_generators_are_found_within_each_other_and_closed_from_within() -> None:
    closed: list[str] = []

    async def layer(name: str, inner: AsyncGenerator[int] | None = None) -> AsyncGenerator[int]:
        try:
            async for item in inner or layer_of_numbers():
                yield item
        finally:
            closed.append(name)

    async def layer_of_numbers() -> AsyncGenerator[int]:
        try:
            for number in range(9):
                yield number
        finally:
            closed.append("numbers")

    async def use() -> None:
        held: dict[str, Any] = {"response": layer("outer", layer("inner"))}
        assert await anext(held["response"]) == 0
        found = nested_generators(held)
        assert [one.__name__ for one in found] == ["layer", "layer", "layer_of_numbers"]
        await close_generators(found)
        await close_generators(found)

    asyncio.run(use())
    assert closed == ["numbers", "inner", "outer"]


def test_a_generator_that_is_running_is_left_alone() -> None:
    async def closes_itself(holder: list[Any]) -> AsyncGenerator[int]:
        await close_generators(holder)
        yield 1

    async def use() -> list[int]:
        holder: list[Any] = []
        holder.append(closes_itself(holder))
        return [number async for number in holder[0]]

    assert asyncio.run(use()) == [1]
