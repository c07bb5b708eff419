"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from statewright.client.connection import Connection
from statewright.client.flow.effects import Flow
from statewright.client.resources.root import Root
from statewright.client.settings import ClientSettings
from statewright.client.sync_async import Async
from statewright.client.transport import import_httpx

if TYPE_CHECKING:
    import httpx


class AsyncClient(Root[Async, "httpx.AsyncBaseTransport"]):
    """Asynchronous client of a service. Close it with `aclose`, or use it in `async with`."""

    def _connect(self, transport: httpx.AsyncBaseTransport | None, settings: ClientSettings) -> AsyncDriver:
        self._http = import_httpx().AsyncClient(transport=transport)
        return AsyncDriver(self._http, settings)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncDriver:
    """Performs the effects of flows on the event loop of the caller."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings

    async def run(self, flow: Flow[Any]) -> Any:
        return await _AsyncConnection(self._http, self._settings).run(flow)

    async def iterate(self, flow: Flow[Any]) -> AsyncGenerator[Any]:
        connection = _AsyncConnection(self._http, self._settings)
        try:
            while (item := await connection.next_item(flow)) is not None:
                yield item.item
        finally:
            await connection.close()


class _AsyncConnection(Connection):
    _pieces: AsyncIterator[bytes]

    async def _send(self, request: Any, *, stream: bool = False) -> Any:
        response = await self._http.send(request, stream=stream)
        if stream:
            self._pieces = response.aiter_bytes()
        return response

    async def _read_all(self) -> bytes:
        return await self._stream.aread()

    async def _read_piece(self) -> bytes:
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def _close_stream(self) -> None:
        await self._stream.aclose()

    async def _sleep(self, seconds: float) -> None:
        loop, passed = asyncio.get_running_loop(), asyncio.Event()
        timer = self._settings.clock.call_later(seconds, lambda: loop.call_soon_threadsafe(passed.set))
        try:
            await passed.wait()
        finally:
            timer.cancel()
