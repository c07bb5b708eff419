"""Close the streams of a provider in the right order and in the right task, even if the reader stops early.

The reader of a stream may stop at any point without closing it. The nested generators inside hold an open response, and
must be closed innermost first, in the task that opened them. `run_in_own_task` runs them in a separate task, which is
cancelled when the reader stops, when its iterator is garbage-collected, or when the loop ends.

google-genai reads an answer through nested generators, and keeps one of them in an object to which another refers. If
the reader stops early, only the outermost is closed. The others hold the connection open until they are
garbage-collected; and if the loop ends first, it closes all of them concurrently, and each fails because another is
running. So they are looked up before the stream is closed, and closed after it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from types import AsyncGeneratorType
from typing import Any, Final, TypeVar, cast

Item = TypeVar("Item")


async def run_in_own_task(items: AsyncGenerator[Item]) -> AsyncGenerator[Item]:
    """Yield items that a separate task produces. An error of `items` is raised after the items that precede it."""
    queue: asyncio.Queue[tuple[Item] | None] = asyncio.Queue()
    task = asyncio.create_task(_fill(queue, items))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (item := await queue.get()) is not None:
            yield item[0]
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # retrieved, since asyncio logs errors that nothing has retrieved


async def _fill(queue: asyncio.Queue[tuple[Item] | None], items: AsyncGenerator[Item]) -> None:
    async with aclosing(items):
        async for item in items:
            queue.put_nowait((item,))


# -- generators that a library drops

_LIBRARIES: Final = ("google.genai", "pydantic_ai", "httpx", "httpcore")
"""Packages whose objects are searched for generators."""
_MAX_OBJECTS: Final = 10_000


def nested_generators(root: object) -> list[AsyncGenerator[Any]]:
    """Return the asynchronous generators to which an object refers, directly or indirectly, outermost first."""
    generators: list[AsyncGenerator[Any]] = []
    seen: dict[int, object] = {id(root): root}
    level: Sequence[object] = [root]
    while level and len(seen) < _MAX_OBJECTS:
        next_level: list[object] = []
        for item in gc.get_referents(*level):
            if id(item) in seen or not _is_followed(item):
                continue
            seen[id(item)] = item
            next_level.append(item)
            if isinstance(item, AsyncGeneratorType):
                generators.append(cast("AsyncGenerator[Any]", item))
        level = next_level
    return generators


def _is_followed(item: object) -> bool:
    return isinstance(item, AsyncGeneratorType | dict) or type(item).__module__.startswith(_LIBRARIES)


async def close_generators(generators: Sequence[AsyncGenerator[Any]]) -> None:
    """Close generators, the last one first; skip those that are closed or running."""
    for generator in reversed(generators):
        with suppress(RuntimeError):
            await generator.aclose()
