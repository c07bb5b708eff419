"""What all routes of one application share."""

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
    """Tells those who wait for long that the server is about to stop."""

    def __init__(self) -> None:
        self._told: list[Callable[[], object]] = []
        self.begun = False

    def begin(self) -> None:
        """Tell everybody. Called on the event loop."""
        self.begun = True
        for callback in tuple(self._told):
            callback()

    def tell(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when it begins, at once if it has; what is returned takes that back."""
        self._told.append(callback)
        if self.begun:
            callback()
        return lambda: self._told.remove(callback)

    async def unless(self, work: Awaitable[T]) -> T | None:
        """The answer of some work, or None if the server is to stop before."""
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
    """A service, and how it is offered."""

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


def offer_of(request: Request) -> ServerContext:
    """What a request is addressed to."""
    return request.app.state.offer
