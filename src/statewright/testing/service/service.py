"""A whole service in the process of a test, with a clock that skips to the next timer.

Each call returns once nothing more can happen without time passing, so that a test reads like a sequential program:
start a run, inspect it, let a year pass, inspect it again.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from statewright.client.sync_async import Async, Sync
from statewright.service import ServiceSettings
from statewright.service.webhooks import WebhookSettings
from statewright.testing.service.idle import PATIENCE
from statewright.testing.service.operations import Operations
from statewright.testing.service.parts import URL, ServiceParts
from statewright.workflow.steps import Handlers, ToolsGiven

if TYPE_CHECKING:
    from statewright.client import AsyncClient, Client

T = TypeVar("T")


class TestService(Operations[Sync]):
    """A service for tests: in `with`, its methods block; `async with` returns one whose methods are awaited.

    Data is in memory, or in the SQLite file at `path`. Time begins at `start`, and passes only in `advance`,
    `skip_to_next_timer` and `run_to_rest`. `handlers` are called by task steps of definitions, `models` by llm steps,
    and `tools` are available to these models. A call raises TimeoutError if the service is not idle after
    `patience` real seconds. Further options go to `Service`: `store`, `instruments`, `logs`.
    """

    __test__: ClassVar[bool] = False

    def __init__(
        self,
        graphs: Mapping[str, Any] | None = None,
        *,
        handlers: Handlers | Mapping[str, Any] | None = None,
        definitions: Sequence[Any] = (),
        models: Any = None,
        tools: ToolsGiven = None,
        path: str | os.PathLike[str] | None = None,
        start: datetime | None = None,
        settings: ServiceSettings | None = None,
        webhooks: WebhookSettings | None = None,
        patience: float = PATIENCE,
        **service: Any,
    ) -> None:
        super().__init__(
            ServiceParts(
                graphs or {},
                handlers,
                definitions,
                models=models,
                tools=tools,
                path=path,
                start=start,
                settings=settings,
                webhooks=webhooks,
                patience=patience,
                service=service,
            )
        )

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._parts.thread.submit(work).result()

    @functools.cached_property
    def client(self) -> Client:
        """A client of the HTTP API, without a socket. Its methods return once the service is idle."""
        from statewright.client import Client

        return Client(URL, transport=self._call(self._parts.transport()))

    def __enter__(self) -> Self:
        self._parts.thread.start()
        self._call(self._parts.open())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._parts.close())
        finally:
            self._parts.release()

    async def __aenter__(self) -> AsyncTestService:
        self._parts.thread.start()
        await asyncio.wrap_future(self._parts.thread.submit(self._parts.open()))
        return AsyncTestService(self._parts)

    async def __aexit__(self, *_: object) -> None:
        try:
            await asyncio.wrap_future(self._parts.thread.submit(self._parts.close()))
        finally:
            await asyncio.to_thread(self._parts.release)


class AsyncTestService(Operations[Async]):
    """The result of `async with TestService(...)`: the same methods, awaited."""

    async def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self._parts.thread.submit(work))

    @functools.cached_property
    def client(self) -> AsyncClient:
        """A client of the HTTP API, without a socket. Its methods return once the service is idle."""
        from statewright.client import AsyncClient

        return AsyncClient(URL, transport=self._parts.thread.submit(self._parts.transport()).result())
