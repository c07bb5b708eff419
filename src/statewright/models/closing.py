"""Streams that are given up when their reader goes away."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def closing(events: AsyncIterator[T]) -> AsyncGenerator[AsyncIterator[T]]:
    """The stream, which is closed when the block is left, so that a connection below is given up at once.

    Without this the stream of a cancelled reader would stay open until it is collected as garbage.
    """
    try:
        yield events
    finally:
        close: Any = getattr(events, "aclose", None)
        if close is not None:
            await close()
