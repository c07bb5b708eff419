"""An asynchronous iterator that runs in a task of its own.

Whoever reads a stream may stop at any place, and not close it. The generators inside hold an open response, one within
the other, and must be closed in their order, in the task that opened them. In a task of their own they are: it is
cancelled when the reader stops, when its iterator is given up, and when the loop ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

Item = TypeVar("Item")


async def run_apart(items: AsyncGenerator[Item]) -> AsyncGenerator[Item]:
    """The same items; raises what `items` raises, after the items before it."""
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
            task.exception()  # asked for, so that nobody complains of an error that came after the reader had left


async def _fill(queue: asyncio.Queue[tuple[Item] | None], items: AsyncGenerator[Item]) -> None:
    async with aclosing(items):
        async for item in items:
            queue.put_nowait((item,))
