"""The synchronous and the asynchronous client."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from statewright.api.access import Health
from statewright.client.call import Call
from statewright.client.connection import Connection, complete, import_httpx
from statewright.client.resources.access import Costs, Keys, Workspaces
from statewright.client.resources.automation import Schedules, Triggers, Webhooks
from statewright.client.resources.definitions import Definitions, Graphs, Threads
from statewright.client.resources.interrupts import Approvals, Events, Interrupts
from statewright.client.resources.runs import Runs
from statewright.client.resources.workers import Queues, Workers
from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.client.sync_async import Async, F, Namespace, Sync, request
from statewright.clock import Clock, SystemClock

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Transport = TypeVar("Transport")
"""A synchronous or asynchronous transport of httpx."""


class BaseClient(Namespace[F], ABC, Generic[F, Transport]):
    """Base class of the clients. It has one attribute for each resource of the API."""

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
        """Create a client. Raises InvalidConfig for an invalid option, and MissingLibrary without the extra `client`.

        A request fails after `timeout` seconds without data from the service. `retries` is the maximum number of
        retries of a request that can safely be repeated.
        """
        settings = ClientSettings(
            base_url=base_url,
            api_key=api_key,
            admin_token=admin_token,
            timeout=timeout,
            retries=retries,
            clock=clock or SystemClock(),
        )
        connection = self._connect(transport, settings)
        super().__init__(connection)
        self.runs: Runs[F] = Runs(connection)
        self.definitions: Definitions[F] = Definitions(connection)
        self.graphs: Graphs[F] = Graphs(connection)
        self.interrupts: Interrupts[F] = Interrupts(connection)
        self.approvals: Approvals[F] = Approvals(connection)
        self.events: Events[F] = Events(connection)
        self.threads: Threads[F] = Threads(connection)
        self.costs: Costs[F] = Costs(connection)
        self.webhooks: Webhooks[F] = Webhooks(connection)
        self.schedules: Schedules[F] = Schedules(connection)
        self.triggers: Triggers[F] = Triggers(connection)
        self.keys: Keys[F] = Keys(connection)
        self.workspaces: Workspaces[F] = Workspaces(connection)
        self.workers: Workers[F] = Workers(connection)
        self.queues: Queues[F] = Queues(connection)

    @abstractmethod
    def _connect(self, transport: Transport | None, settings: ClientSettings) -> Connection:
        """Return the connection of the client. Without a transport, httpx uses its own."""

    @request
    def health(self) -> Call[Health]:
        """Return the health of the service, even if it is failing."""
        return Call(method="GET", path="/health", read=Health.from_json, accepted=(503,))

    @request
    def live(self) -> Call[bool]:
        """Return False if a step blocks the process of the server."""
        return Call(method="GET", path="/live", read=lambda answer: answer["status"] == "live", accepted=(503,))

    @request
    def ready(self) -> Call[bool]:
        """Return True if the service accepts requests."""
        return Call(method="GET", path="/ready", read=lambda answer: answer["status"] == "ready", accepted=(503,))

    @request
    def metrics(self) -> Call[str]:
        """Return the metrics of the service, in the text format of Prometheus."""
        return Call(method="GET", path="/metrics", read=str, repeatable=True, is_text=True)


# -- synchronous


class Client(BaseClient[Sync, "httpx.BaseTransport"]):
    """Synchronous client of a service. Thread-safe. Close it with `close`, or use it as a context manager."""

    def _connect(self, transport: httpx.BaseTransport | None, settings: ClientSettings) -> SyncConnection:
        self._http = import_httpx().Client(transport=transport)
        return SyncConnection(self._http, settings)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncConnection(Connection):
    """A connection that blocks the thread of the caller."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return complete(coroutine)

    def iterate(self, items: AsyncGenerator[T]) -> Generator[T]:
        async def advance() -> T:
            # `complete` has removed the hooks of the event loop, which `__anext__` would call.
            return await items.__anext__()

        try:
            while True:
                try:
                    item = complete(advance())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            complete(items.aclose())

    async def sleep(self, seconds: float) -> None:
        self.settings.clock.wait(threading.Event(), seconds)

    async def send_request(self, request: Any, *, stream: bool = False) -> Any:
        return self._http.send(request, stream=stream)

    async def read_content(self, response: Any) -> bytes:
        return response.read()

    def iter_content(self, response: Any) -> Any:
        return response.iter_bytes()

    async def next_piece(self, pieces: Any) -> bytes | None:
        return next(pieces, None)

    async def close_response(self, response: Any) -> None:
        response.close()


# -- asynchronous


class AsyncClient(BaseClient[Async, "httpx.AsyncBaseTransport"]):
    """Asynchronous client of a service. Close it with `aclose`, or use it as an async context manager."""

    def _connect(self, transport: httpx.AsyncBaseTransport | None, settings: ClientSettings) -> AsyncConnection:
        self._http = import_httpx().AsyncClient(transport=transport)
        return AsyncConnection(self._http, settings)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncConnection(Connection):
    """A connection that suspends the task of the caller."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        return coroutine

    def iterate(self, items: AsyncGenerator[T]) -> AsyncGenerator[T]:
        return items

    async def sleep(self, seconds: float) -> None:
        import asyncio  # here, because a synchronous client does not need it

        loop, elapsed = asyncio.get_running_loop(), asyncio.Event()
        timer = self.settings.clock.call_later(seconds, lambda: loop.call_soon_threadsafe(elapsed.set))
        try:
            await elapsed.wait()
        finally:
            timer.cancel()

    async def send_request(self, request: Any, *, stream: bool = False) -> Any:
        return await self._http.send(request, stream=stream)

    async def read_content(self, response: Any) -> bytes:
        return await response.aread()

    def iter_content(self, response: Any) -> Any:
        return response.aiter_bytes()

    async def next_piece(self, pieces: Any) -> bytes | None:
        return await anext(pieces, None)

    async def close_response(self, response: Any) -> None:
        await response.aclose()
