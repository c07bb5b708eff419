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
    """Notifies streams and long waits that the server is about to stop."""

    def __init__(self) -> None:
        self._told: list[Callable[[], object]] = []
        self.begun = False

    def begin(self) -> None:
        """Start to stop: notify all. Called on the event loop."""
        self.begun = True
        for callback in tuple(self._told):
            callback()

    def tell(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Register a callback for the start of the shutdown, called at once if it has begun. Return its removal."""
        self._told.append(callback)
        if self.begun:
            callback()
        return lambda: self._told.remove(callback)

    async def unless(self, work: Awaitable[T]) -> T | None:
        """Return the result of an awaitable, or None if the server starts to stop before it is available."""
        task = asyncio.ensure_future(work)
        forget = self.tell(task.cancel)
        try:
            with suppress(asyncio.CancelledError):
                return await task
            if not self.begun:  # it is the request that was cancelled
                raise asyncio.CancelledError
            return None
        finally:
            forget()
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
