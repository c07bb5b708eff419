"""A server of streams for tests, which leaves no connection open, whenever it ends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

ITERATIONS = 10
"""Iterations of the event loop, more than it takes to open or abort a connection that has been accepted."""


@asynccontextmanager
async def listening(
    handle: Handle, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve connections with `handle` and yield the port; connections that are still open at the end are aborted."""
    handlers: set[asyncio.Future[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function: a coroutine could be cancelled before it has started, and would not close the connection.
        def abort(handler: asyncio.Future[None]) -> None:
            writer.transport.abort()
            handlers.discard(handler)

        handler = asyncio.ensure_future(handle(reader, writer))
        handlers.add(handler)
        handler.add_done_callback(abort)

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        # If a server is closed while asyncio (3.11) accepts a connection, the connection is never closed. So the server
        # first stops accepting, then lets accepted connections start.
        for bound in server.sockets:
            asyncio.get_running_loop().remove_reader(bound)
        await _run_loop()
        server.close()
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await _run_loop()


async def _run_loop() -> None:
    for _ in range(ITERATIONS):
        await asyncio.sleep(0)
