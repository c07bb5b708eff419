"""The shared state of one application: caches, rate limits, open streams, the write probe and the shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from starlette.requests import Request

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError
from statewright.ids import new_run_id
from statewright.runs import Delete, Insert, Ledger, Worker, where
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.server.context.reload_status import ReloadStatus
from statewright.server.context.shared_call import SharedCall
from statewright.server.settings import ServerSettings
from statewright.server.streaming.event_cache import EventCache
from statewright.server.streaming.stream_limits import OpenStreams
from statewright.service.access import KeyRing
from statewright.service.access.rates import RateLimiter, StartLimits
from statewright.service.webhooks import DEFAULT_SETTINGS, WebhookSettings

if TYPE_CHECKING:
    from statewright.observe import Metrics
    from statewright.service import Service

T = TypeVar("T")
PROBE_CACHE_TIME: Final = 5.0
"""Seconds for which the result of a probe is cached, because the health route is public and a probe costs a write."""
PROBE_TIMEOUT: Final = 5.0
"""Seconds after which a write counts as failed."""
READ_TIMEOUT: Final = 5.0
"""Seconds for which a request about health or metrics waits for the database."""


class Shutdown:
    """The shutdown of the server, which ends streams and long waits. Used by one event loop."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []
        self.has_begun = False

    def begin(self) -> None:
        """Begin the shutdown and call all callbacks."""
        self.has_begun = True
        for callback in tuple(self._callbacks):
            callback()

    def register(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` when the shutdown begins, or now if it has begun. Return a function that unregisters it."""
        self._callbacks.append(callback)
        if self.has_begun:
            callback()
        return lambda: self._callbacks.remove(callback)

    async def race(self, work: Awaitable[T]) -> T | None:
        """Await `work` and return its result. If the shutdown begins first, cancel `work` and return None."""
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
    """Tests whether the database accepts writes. A database that can be read may still be full, locked or read-only.

    The probe inserts and deletes a record in one transaction, at most once every few seconds. It is used by one event
    loop only.
    """

    def __init__(
        self,
        ledger: Ledger,
        now: Callable[[], datetime],
        *,
        cache_time: float = PROBE_CACHE_TIME,
        timeout: float = PROBE_TIMEOUT,
    ) -> None:
        self._ledger = ledger
        self._now = now
        self._cache_time = cache_time
        self._timeout = timeout
        self._probed_at: float | None = None
        self._succeeded = False
        self._lock = asyncio.Lock()

    async def succeeds(self) -> bool:
        """Return True if the database has accepted a write within the last few seconds."""
        loop = asyncio.get_running_loop()
        async with self._lock:  # concurrent callers share one write
            if self._probed_at is None or loop.time() - self._probed_at >= self._cache_time:
                self._succeeded = await self._probe()
                self._probed_at = loop.time()
            return self._succeeded

    async def _probe(self) -> bool:
        now = self._now()
        probe = Worker(
            id=f"probe_{new_run_id()}", place="", pid=0, process_started="", capacity=0, until=now, started_at=now
        )
        try:
            async with asyncio.timeout(self._timeout):
                # Both changes are in one transaction, so that no other process ever sees the record.
                await aresolve(self._ledger.write([Insert(probe), Delete(Worker, where(id=probe.id))]))
        except (StatewrightError, TimeoutError):
            return False
        return True


@dataclass(slots=True)
class ServerContext:
    """The service and the settings of one application, with its caches, rate limits and open streams."""

    service: Service
    settings: ServerSettings
    metrics: Metrics | None = None
    webhooks: WebhookSettings = DEFAULT_SETTINGS
    reload_status: ReloadStatus | None = None
    """The state of the files that a development server watches."""
    key_ring: KeyRing = field(init=False)
    rate_limiter: RateLimiter = field(default_factory=RateLimiter)
    start_limits: StartLimits = field(init=False)
    shutdown: Shutdown = field(default_factory=Shutdown)
    event_cache: EventCache = field(default_factory=EventCache)
    streams: OpenStreams = field(init=False)
    write_probe: WriteProbe = field(init=False)
    read_probe: SharedCall[None] = field(init=False)
    metrics_page: SharedCall[bytes] = field(init=False)

    def __post_init__(self) -> None:
        ledger = self.service.context.ledger
        self.key_ring = KeyRing(ledger)
        self.start_limits = StartLimits(ledger, self.rate_limiter)
        limit, idle = self.settings.max_streams, self.session_idle
        self.streams = OpenStreams(ledger, self.service.clock.now, limit, session_idle=idle)
        self.write_probe = WriteProbe(ledger, self.service.clock.now)
        self.read_probe = SharedCall(self.service.check, timeout=READ_TIMEOUT)
        # On a thread, because some metrics are read from the database, which may not answer.
        self.metrics_page = SharedCall(partial(call_in_thread, self._render_metrics), timeout=READ_TIMEOUT)

    @property
    def session_idle(self) -> timedelta:
        """The time after which a session that is not used ends."""
        return timedelta(seconds=self.settings.session_idle)

    def _render_metrics(self) -> bytes:
        render: Callable[[], bytes] | None = getattr(self.metrics, "render", None)
        return render() if render is not None else b""


def server_context_of(request: Request) -> ServerContext:
    """Return the server context of a request."""
    return request.app.state.context
