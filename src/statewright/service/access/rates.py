"""Rate limits: a token bucket for each name, in the memory of this process; and the starts of runs of a workspace."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import TooManyRequests
from statewright.lru_cache import LRUCache
from statewright.runs import Ledger, Workspace

MOST_BUCKETS: Final = 10_000
_ROUNDING: Final = 1e-9
"""Tolerance for rounding, so that a caller who waits exactly as long as the error said is not refused."""


class RateLimiter:
    """Limits requests by name. A bucket holds the tokens of one minute, and is refilled evenly.

    Of more names than `most`, the least recently used are dropped; they start again with a full bucket.
    To be used by one event loop.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._buckets: LRUCache[Hashable, tuple[float, datetime]] = LRUCache(most)
        """The tokens of each name, and the time at which it had them."""

    def check(self, name: Hashable, per_minute: int | None, now: datetime) -> None:
        """Take a token, if requests are limited. Raises TooManyRequests if none is left."""
        if per_minute is None:
            return
        tokens, at = self._refill(name, per_minute, now)
        if tokens < 1 - _ROUNDING:
            seconds = (1 - tokens) * 60 / per_minute
            raise TooManyRequests(
                f"More than {per_minute} in a minute are not allowed. Try again in {seconds:.1f} seconds.",
                retry_after=seconds,
            )
        self._buckets.put(name, (max(tokens - 1, 0.0), at))

    def remaining(self, name: Hashable, per_minute: int, now: datetime) -> int:
        """Return the number of tokens that a name has."""
        return int(self._refill(name, per_minute, now)[0] + _ROUNDING)

    def _refill(self, name: Hashable, per_minute: int, now: datetime) -> tuple[float, datetime]:
        """Return the tokens of a name, filled up to now, and the time."""
        tokens, at = self._buckets.get(name) or (float(per_minute), now)
        elapsed = max((now - at).total_seconds(), 0.0)
        return min(tokens + elapsed * per_minute / 60, float(per_minute)), max(now, at)


# -- starts of runs

MOST_LIMITS: Final = 1000
"""The largest number of cached limits."""
FRESH: Final = timedelta(seconds=5)
"""The time for which a cached limit is used."""


class StartLimits:
    """Counts the starts of workspaces. A limit that another process changes takes effect within seconds."""

    def __init__(self, ledger: Ledger, rates: RateLimiter) -> None:
        self._ledger = ledger
        self._rates = rates
        self._cache: LRUCache[str, tuple[int | None, datetime]] = LRUCache(MOST_LIMITS)

    async def check(self, workspace_id: str, now: datetime) -> None:
        """Count a start. Raises TooManyRequests above the limit of the workspace."""
        self._rates.check(("starts", workspace_id), await self._limit(workspace_id, now), now)

    def forget(self, workspace_id: str) -> None:
        """Drop the cached limit of a workspace after a change."""
        self._cache.pop(workspace_id)

    async def _limit(self, workspace_id: str, now: datetime) -> int | None:
        entry = self._cache.get(workspace_id)
        if entry is not None and abs(now - entry[1]) < FRESH:
            return entry[0]
        workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
        limit = workspace.starts_per_minute if workspace is not None else None
        self._cache.put(workspace_id, (limit, now))
        return limit
