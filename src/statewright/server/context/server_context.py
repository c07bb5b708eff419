"""The shared state of one application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from statewright.server.context.start_limits import StartLimits
from statewright.server.context.write_probe import WriteProbe
from statewright.server.settings import ServerSettings
from statewright.server.streaming.event_bytes import EventBytes
from statewright.server.streaming.stream_limits import Streams
from statewright.service.access import KeyRing
from statewright.service.access.rates import RateLimiter
from statewright.service.webhooks import DEFAULT_SETTINGS, WebhookSettings

if TYPE_CHECKING:
    from statewright.observe import Metrics
    from statewright.service import Service

T = TypeVar("T")


class Closing:
    """The start of the shutdown, which ends streams and long waits. Used by one event loop."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []
        self.has_begun = False

    def begin(self) -> None:
        """Begin the shutdown: call all callbacks."""
        self.has_begun = True
        for callback in tuple(self._callbacks):
            callback()

    def register(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the shutdown begins, or now if it has begun. Return a function that removes it."""
        self._callbacks.append(callback)
        if self.has_begun:
            callback()
        return lambda: self._callbacks.remove(callback)

    async def race(self, work: Awaitable[T]) -> T | None:
        """Return the result of an awaitable, or None if the shutdown begins first, which cancels the awaitable."""
        task = asyncio.ensure_future(work)
        unregister = self.register(task.cancel)
        try:
            with suppress(asyncio.CancelledError):
                return await task
            if not self.has_begun:  # the request itself was cancelled
                raise asyncio.CancelledError
            return None
        finally:
            unregister()
            task.cancel()


@dataclass(slots=True)
class ServerContext:
    """The service and the settings of one application, with its caches, limits and streams."""

    service: Service
    settings: ServerSettings
    metrics: Metrics | None = None
    webhooks: WebhookSettings = DEFAULT_SETTINGS
    keys: KeyRing = field(init=False)
    rates: RateLimiter = field(default_factory=RateLimiter)
    limits: StartLimits = field(init=False)
    closing: Closing = field(default_factory=Closing)
    event_bytes: EventBytes = field(default_factory=EventBytes)
    streams: Streams = field(init=False)
    writes: WriteProbe = field(init=False)

    def __post_init__(self) -> None:
        self.keys = KeyRing(self.service.context.ledger)
        ledger = self.service.context.ledger
        self.limits = StartLimits(ledger, self.rates)
        self.streams = Streams(ledger, self.service.clock.now, self.settings.max_streams)
        self.writes = WriteProbe(ledger, self.service.clock.now)


def server_context_of(request: Request) -> ServerContext:
    """Return the server context of a request."""
    return request.app.state.context
