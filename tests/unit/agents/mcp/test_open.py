"""Detection of the end of a connection."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from statewright.agents.mcp.open import with_end_detection


def test_messages_pass_and_the_end_of_the_stream_is_reported() -> None:
    async def run() -> None:
        going, coming = anyio.create_memory_object_stream[Any](1)

        @asynccontextmanager
        async def streams() -> AsyncGenerator[tuple[Any, Any]]:
            async with coming, going:
                yield coming, going

        ended: list[Exception | None] = []
        async with with_end_detection(streams(), ended.append) as (read, write):
            await write.send("message")
            assert await read.receive() == "message"
            await write.send("another")
            assert (await anext(aiter(read)), ended) == ("another", [])
            await write.aclose()
            assert [message async for message in read] == []
            assert ended == [None]

    asyncio.run(run())
