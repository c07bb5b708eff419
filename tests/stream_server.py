"""A server of streams for tests, which leaves no connection open however early it ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TURNS = 10
"""More turns of the loop than it takes to make or to cut off a connection that has been accepted."""


@asynccontextmanager
async def listening(
    handle: Handle, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Have `handle` serve connections to the port that is yielded; what is still open at the end is cut off."""
    handlers: set[asyncio.Future[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function: as a coroutine it could be cancelled before it has begun, and would never close anything.
        def cut_off(handler: asyncio.Future[None]) -> None:
            writer.transport.abort()
            handlers.discard(handler)

        handler = asyncio.ensure_future(handle(reader, writer))
        handlers.add(handler)
        handler.add_done_callback(cut_off)

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        # A server that is closed while asyncio (3.11) accepts a connection drops it without closing it: first no more
        # are accepted, then those that were begin to be served.
        for bound in server.sockets:
            asyncio.get_running_loop().remove_reader(bound)
        await _take_turns()
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await _take_turns()


async def _take_turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
