"""Close the streams of a provider in the right order and in the right task, even if the reader stops early.

The reader of a stream may stop at any point, without closing the stream. A stream consists of nested generators, which
keep a response open. They must be closed innermost first, and in the task that opened them. Therefore `run_in_own_task`
runs them in a separate task, which is cancelled when the reader stops, when the reader's iterator is garbage-collected,
or when the event loop ends.

google-genai reads an answer through nested generators, and keeps one of them in an object to which another refers. If
the reader stops early, only the outermost generator is closed. The others keep the connection open until they are
garbage-collected. If the event loop ends before that, it closes them all concurrently, and each fails because another
one is running. Therefore `nested_generators` finds them before the stream is closed, and `close_generators` closes them
afterwards.
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
    """Iterate over `items` in a separate task, and yield them. Errors are raised after the items that precede them."""
    queue: asyncio.Queue[tuple[Item] | None] = asyncio.Queue()
    task = asyncio.create_task(_fill_queue(queue, items))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (item := await queue.get()) is not None:
            yield item[0]
        await task
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # asyncio would log an error that is never retrieved


async def _fill_queue(queue: asyncio.Queue[tuple[Item] | None], items: AsyncGenerator[Item]) -> None:
    async with aclosing(items):
        async for item in items:
            queue.put_nowait((item,))


# -- generators that a library does not close

_LIBRARIES: Final = ("google.genai", "pydantic_ai", "httpx", "httpcore")
"""The packages whose objects are searched for generators."""
_MAX_OBJECTS: Final = 10_000
"""Maximum number of objects to search."""


def nested_generators(root: object) -> list[AsyncGenerator[Any]]:
    """Return the asynchronous generators to which `root` refers, directly or indirectly, outermost first."""
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
    """Close generators in reverse order, and skip those that are closed or running."""
    for generator in reversed(generators):
        with suppress(RuntimeError):
            await generator.aclose()
