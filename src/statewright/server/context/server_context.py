"""The shared state of one application: its caches, limits and streams, the probe of the database, the shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.requests import Request

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError
from statewright.ids import draw_run_id
from statewright.runs import Delete, Insert, Ledger, Worker, where
from statewright.server.settings import ServerSettings
from statewright.server.streaming.event_bytes import EventBytes
from statewright.server.streaming.stream_limits import Streams
from statewright.service.access import KeyRing
from statewright.service.access.rates import RateLimiter, StartLimits
from statewright.service.webhooks import DEFAULT_SETTINGS, WebhookSettings

if TYPE_CHECKING:
    from statewright.observe import Metrics
    from statewright.service import Service

T = TypeVar("T")
PROBE_FRESH: Final = 5.0
"""Seconds for which the result of a probe is cached: the route is public, and each probe costs a write."""
PROBE_PATIENCE: Final = 5.0
"""Seconds after which a write counts as refused."""


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


class WriteProbe:
    """Tests whether the database accepts writes: one that can be read may still be full, locked or read-only.

    Writes and deletes a record in one transaction, at most once every few seconds. Used by one event loop.
    """

    def __init__(
        self,
        ledger: Ledger,
        now: Callable[[], datetime],
        *,
        fresh: float = PROBE_FRESH,
        patience: float = PROBE_PATIENCE,
    ) -> None:
        self._ledger = ledger
        self._now = now
        self._fresh = fresh
        self._patience = patience
        self._probed_at: float | None = None
        self._succeeded = False
        self._lock = asyncio.Lock()

    async def succeeds(self) -> bool:
        """Return True if the database has accepted a write in the last seconds."""
        async with self._lock:  # concurrent callers share one write
            now = asyncio.get_running_loop().time()
            if self._probed_at is None or now - self._probed_at >= self._fresh:
                self._succeeded = await self._probe()
                self._probed_at = asyncio.get_running_loop().time()
            return self._succeeded

    async def _probe(self) -> bool:
        now = self._now()
        probe = Worker(
            id=f"probe_{draw_run_id()}", place="", pid=0, process_started="", capacity=0, until=now, started_at=now
        )
        try:
            async with asyncio.timeout(self._patience):
                # In one transaction: no other process ever sees it.
                await aresolve(self._ledger.write([Insert(probe), Delete(Worker, where(id=probe.id))]))
        except (StatewrightError, TimeoutError):
            return False
        return True


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
        ledger = self.service.context.ledger
        self.keys = KeyRing(ledger)
        self.limits = StartLimits(ledger, self.rates)
        self.streams = Streams(ledger, self.service.clock.now, self.settings.max_streams)
        self.writes = WriteProbe(ledger, self.service.clock.now)


def server_context_of(request: Request) -> ServerContext:
    """Return the server context of a request."""
    return request.app.state.context
