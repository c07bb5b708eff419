"""The limit of runs that a workspace may start per minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.runs import Ledger, Workspace
from statewright.service.access.rates import RateLimiter

FRESH: Final = timedelta(seconds=5)
"""How long a cached limit is used."""
_MOST: Final = 1000
"""The size of the cache."""


class StartLimits:
    """Counts the starts of workspaces. A limit that another process has changed is seen within seconds."""

    def __init__(self, ledger: Ledger, rates: RateLimiter) -> None:
        self._ledger = ledger
        self._rates = rates
        self._known: dict[str, tuple[int | None, datetime]] = {}

    async def check(self, workspace_id: str, now: datetime) -> None:
        """Count a start. Raises TooManyRequests."""
        self._rates.check(("starts", workspace_id), await self._limit(workspace_id, now), now)

    def forget(self, workspace_id: str) -> None:
        """Drop the cached limit of a workspace, because it was changed."""
        self._known.pop(workspace_id, None)

    async def _limit(self, workspace_id: str, now: datetime) -> int | None:
        known = self._known.get(workspace_id)
        if known is not None and abs(now - known[1]) < FRESH:
            return known[0]
        workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
        limit = workspace.starts_per_minute if workspace is not None else None
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[workspace_id] = (limit, now)
        return limit
