"""A call that concurrent requests share, and for which none waits long.

While a database does not answer, the routes for health and metrics keep being called, by supervisors and by Prometheus.
If each request read the database, hundreds of reads would soon wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Calls an async function for requests: those that arrive during a call share its result. For one event loop."""

    def __init__(self, call: Callable[[], Awaitable[T]], *, timeout: float) -> None:
        self._call = call
        self._timeout = timeout
        self._running: asyncio.Future[T] | None = None

    async def result(self) -> T:
        """Return the result of the call that is running, else of a new one. An error of the call is raised.

        Raises TimeoutError after `timeout` seconds. The call continues, for later requests.
        """
        if self._running is None or self._running.done():
            self._running = asyncio.ensure_future(self._call())
            self._running.add_done_callback(_retrieve_error)
        async with asyncio.timeout(self._timeout):
            return await asyncio.shield(self._running)


def _retrieve_error(call: asyncio.Future[T]) -> None:
    """Keep asyncio from reporting an error as ignored if all requests have stopped waiting for it."""
    if not call.cancelled():
        call.exception()
