"""The synchronous and the asynchronous client, with all resources."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from statewright.api.access import Health
from statewright.client.call import Call
from statewright.client.connection import Connection, complete, import_httpx
from statewright.client.flow import Flow
from statewright.client.resources.access import Costs, Keys, Workspaces
from statewright.client.resources.automation import Schedules, Triggers, Webhooks
from statewright.client.resources.definitions import Definitions, Graphs, Threads
from statewright.client.resources.interrupts import Approvals, Events, Interrupts
from statewright.client.resources.runs import Runs
from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.client.sync_async import Async, Driver, F, Namespace, Sync, request
from statewright.clock import Clock, SystemClock

if TYPE_CHECKING:
    import httpx

Transport = TypeVar("Transport")
"""A transport of httpx, synchronous or asynchronous."""


class Root(Namespace[F], ABC, Generic[F, Transport]):
    """All resources of a service."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        timeout: float = 30.0,
        *,
        admin_token: str | None = None,
        retries: int = 3,
        clock: Clock | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Raises InvalidConfig for an invalid address, and MissingLibrary without the extra `client`."""
        settings = ClientSettings(
            base_url=base_url,
            api_key=api_key,
            admin_token=admin_token,
            timeout=timeout,
            retries=retries,
            clock=clock or SystemClock(),
        )
        driver = self._connect(transport, settings)
        super().__init__(driver, settings)
        self.runs: Runs[F] = Runs(driver, settings)
        self.definitions: Definitions[F] = Definitions(driver, settings)
        self.graphs: Graphs[F] = Graphs(driver, settings)
        self.interrupts: Interrupts[F] = Interrupts(driver, settings)
        self.approvals: Approvals[F] = Approvals(driver, settings)
        self.events: Events[F] = Events(driver, settings)
        self.threads: Threads[F] = Threads(driver, settings)
        self.costs: Costs[F] = Costs(driver, settings)
        self.webhooks: Webhooks[F] = Webhooks(driver, settings)
        self.schedules: Schedules[F] = Schedules(driver, settings)
        self.triggers: Triggers[F] = Triggers(driver, settings)
        self.keys: Keys[F] = Keys(driver, settings)
        self.workspaces: Workspaces[F] = Workspaces(driver, settings)

    @abstractmethod
    def _connect(self, transport: Transport | None, settings: ClientSettings) -> Driver:
        """Return the driver of the client, on the given transport or by default on a new one."""

    @request
    def health(self) -> Call[Health]:
        """Return the health of the service, even if it is failing."""
        return Call(method="GET", path="/health", read=Health.from_json, accepted=(503,))

    @request
    def ready(self) -> Call[bool]:
        """Return True if the service accepts requests."""
        return Call(method="GET", path="/ready", read=lambda answer: answer["status"] == "ready", accepted=(503,))

    @request
    def metrics(self) -> Call[str]:
        """Return the metrics of the service, in the text format of Prometheus."""
        return Call(method="GET", path="/metrics", read=str, repeatable=True, is_text=True)


# -- synchronous


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


# -- asynchronous


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
