"""The limit of runs that a workspace may start per minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.runs import Ledger, Workspace
from statewright.service.access.rates import RateLimiter

FRESH: Final = timedelta(seconds=5)
"""How long a cached limit is used."""
_CAPACITY: Final = 1000
"""The size of the cache, in workspaces."""


class StartLimits:
    """Counts the starts of workspaces. A limit that another process changes takes effect within seconds."""

    def __init__(self, ledger: Ledger, rates: RateLimiter) -> None:
        self._ledger = ledger
        self._rates = rates
        self._cache: dict[str, tuple[int | None, datetime]] = {}

    async def check(self, workspace_id: str, now: datetime) -> None:
        """Count a start. Raises TooManyRequests above the limit of the workspace."""
        self._rates.check(("starts", workspace_id), await self._limit(workspace_id, now), now)

    def forget(self, workspace_id: str) -> None:
        """Drop the cached limit of a workspace after a change."""
        self._cache.pop(workspace_id, None)

    async def _limit(self, workspace_id: str, now: datetime) -> int | None:
        entry = self._cache.get(workspace_id)
        if entry is not None and abs(now - entry[1]) < FRESH:
            return entry[0]
        workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
        limit = workspace.starts_per_minute if workspace is not None else None
        if len(self._cache) >= _CAPACITY:
            self._cache.clear()
        self._cache[workspace_id] = (limit, now)
        return limit
