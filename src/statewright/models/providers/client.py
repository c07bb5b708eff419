"""HTTP clients of a provider, one for each event loop.

A connection can be used only on the event loop that opened it, but a model may be called on several loops: those of
workers, the private loops of sync runs, and those of consecutive calls of `asyncio.run`. Therefore each running loop
has its own client, which keeps its connections open for the next call. An asynchronous generator holds the client open,
so that the loop closes the client when it shuts down its asynchronous generators. If a loop is closed without
`shutdown_asyncgens`, its connections are dropped.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider


class Clients:
    """The clients of one provider, by event loop. Open clients are closed when this object is garbage-collected."""

    def __init__(self, prefix: str, create_provider: Callable[[], Provider[Any]]) -> None:
        """`prefix` is the provider's prefix in model names."""
        self._prefix = prefix
        self._create_provider = create_provider
        self._prepared: Client | None = None
        """The client for the first loop, created by `prepare` but not open yet; None after it is used."""
        self._by_loop: dict[asyncio.AbstractEventLoop, Client] = {}
        self._lock = threading.Lock()
        # The finalizer has a reference to the clients, so that they are not garbage-collected before they are closed.
        weakref.finalize(self, _close_all, self._by_loop).atexit = False

    def prepare(self, model: str) -> None:
        """Create the first client, and a model that uses it, so that errors in the configuration are raised now."""
        self._prepared = Client(self._prefix, self._create_provider())
        self._prepared.model(model)

    async def model(self, name: str) -> Model:
        """Return the model with this name, which uses the client of the running event loop."""
        return (await self.client()).model(name)

    async def client(self) -> Client:
        """Return the client of the running event loop, which is opened on first use."""
        loop = asyncio.get_running_loop()
        client = self._by_loop.get(loop)
        if client is None:
            client = self._add_client(loop)
            try:
                await client.open(self._by_loop)
            except BaseException:
                self._by_loop.pop(loop, None)
                raise
        return client

    async def aclose(self) -> None:
        """Close the client of the running event loop. The next call opens a new client."""
        client = self._by_loop.get(asyncio.get_running_loop())
        if client is not None:
            await client.aclose()

    def _add_client(self, loop: asyncio.AbstractEventLoop) -> Client:
        """Add a client for a loop, and drop the clients of closed loops."""
        with self._lock:
            for other_loop in list(self._by_loop):
                if other_loop.is_closed():
                    del self._by_loop[other_loop]
            client, self._prepared = self._prepared or Client(self._prefix, self._create_provider()), None
            self._by_loop[loop] = client
        return client


class Client:
    """The connections to a provider, and the models that use them."""

    def __init__(self, prefix: str, provider: Provider[Any]) -> None:
        self._prefix = prefix
        self._provider = provider
        self._models: dict[str, Model] = {}
        self._holder: AsyncGenerator[None] | None = None
        """The generator that holds the connections open; None while the client is not open."""

    def model(self, name: str) -> Model:
        """Return the model with this name. Raises the errors of pydantic-ai."""
        from pydantic_ai.models import infer_model

        if name not in self._models:
            self._models[name] = infer_model(f"{self._prefix}:{name}", provider_factory=lambda _: self._provider)
        return self._models[name]

    async def open(self, by_loop: dict[asyncio.AbstractEventLoop, Client]) -> None:
        """Open the client on the running event loop. When it is closed, it removes itself from `by_loop`."""
        self._holder = self._hold_open(by_loop)
        await anext(self._holder)

    async def aclose(self) -> None:
        holder, self._holder = self._holder, None
        if holder is not None:
            await holder.aclose()

    async def _hold_open(self, by_loop: dict[asyncio.AbstractEventLoop, Client]) -> AsyncGenerator[None]:
        """Keep the connections open until this generator is closed, at the latest when the event loop shuts down."""
        async with self._provider:
            try:
                yield
            finally:
                by_loop.pop(asyncio.get_running_loop(), None)


def _close_all(by_loop: dict[asyncio.AbstractEventLoop, Client]) -> None:
    """Let each client be closed on its event loop. This function may be called from any thread."""
    for loop, client in list(by_loop.items()):
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_close_soon, loop, client)


def _close_soon(loop: asyncio.AbstractEventLoop, client: Client) -> None:
    task = loop.create_task(client.aclose())
    _closing_tasks.add(task)
    task.add_done_callback(_closing_tasks.discard)


_closing_tasks: set[asyncio.Task[None]] = set()
"""The tasks that close clients, kept alive here, because event loops have only weak references to their tasks."""
