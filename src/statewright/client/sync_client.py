"""The synchronous client."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Self

from statewright.client.connection import Connection, complete
from statewright.client.flow.effects import Flow
from statewright.client.resources.root import Root
from statewright.client.settings import ClientSettings
from statewright.client.sync_async import Sync
from statewright.client.transport import import_httpx

if TYPE_CHECKING:
    import httpx


class Client(Root[Sync, "httpx.BaseTransport"]):
    """Synchronous client of a service. Thread-safe. Close it with `close`, or use it in `with`."""

    def _connect(self, transport: httpx.BaseTransport | None, settings: ClientSettings) -> SyncDriver:
        self._http = import_httpx().Client(transport=transport)
        return SyncDriver(self._http, settings)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncDriver:
    """Performs the effects of flows on the thread of the caller."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings

    def run(self, flow: Flow[Any]) -> Any:
        return complete(_SyncConnection(self._http, self._settings).run(flow))

    def iterate(self, flow: Flow[Any]) -> Generator[Any]:
        connection = _SyncConnection(self._http, self._settings)
        try:
            while (item := complete(connection.next_item(flow))) is not None:
                yield item.item
        finally:
            complete(connection.close())


class _SyncConnection(Connection):
    _pieces: Iterator[bytes] = iter(())

    async def _send(self, request: Any, *, stream: bool = False) -> Any:
        response = self._http.send(request, stream=stream)
        if stream:
            self._pieces = response.iter_bytes()
        return response

    async def _read_all(self) -> bytes:
        return self._stream.read()

    async def _read_piece(self) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")

    async def _close_stream(self) -> None:
        self._stream.close()

    async def _sleep(self, seconds: float) -> None:
        self._settings.clock.wait(threading.Event(), seconds)
