"""A probe for writes to the database: one that can be read may still be full, locked or read-only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import StatewrightError
from statewright.ids import draw_run_id
from statewright.runs import Delete, Insert, Ledger, Worker, where

FRESH: Final = 5.0
"""Seconds for which a result is cached: the route is public, and each probe costs a write."""
PATIENCE: Final = 5.0
"""Seconds after which a write counts as refused."""


class WriteProbe:
    """Writes and deletes a record in one transaction, at most once every few seconds. Used by one event loop."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], datetime], *, fresh: float = FRESH, patience: float = PATIENCE
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
