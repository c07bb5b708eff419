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


class _Bucket:
    __slots__ = ("at", "tokens")

    def __init__(self, tokens: float, at: datetime) -> None:
        self.tokens = tokens
        self.at = at


class RateLimiter:
    """Limits requests by name. A bucket holds the tokens of one minute, and is refilled evenly.

    Of more names than `most`, the least recently used are dropped; they start again with a full bucket.
    To be used by one event loop.
    """

    def __init__(self, most: int = MOST_BUCKETS) -> None:
        self._buckets: LRUCache[Hashable, _Bucket] = LRUCache(most)

    def check(self, name: Hashable, per_minute: int | None, now: datetime) -> None:
        """Take a token, if requests are limited. Raises TooManyRequests if none is left."""
        if per_minute is None:
            return
        bucket = self._bucket(name, per_minute, now)
        if bucket.tokens < 1 - _ROUNDING:
            seconds = (1 - bucket.tokens) * 60 / per_minute
            raise TooManyRequests(
                f"More than {per_minute} in a minute are not allowed. Try again in {seconds:.1f} seconds.",
                retry_after=seconds,
            )
        bucket.tokens = max(bucket.tokens - 1, 0.0)

    def remaining(self, name: Hashable, per_minute: int, now: datetime) -> int:
        """Return the number of tokens that a name has."""
        return int(self._bucket(name, per_minute, now).tokens + _ROUNDING)

    def _bucket(self, name: Hashable, per_minute: int, now: datetime) -> _Bucket:
        """Return the bucket of a name, filled up to now."""
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = _Bucket(per_minute, now)
            self._buckets.put(name, bucket)
        elapsed = max((now - bucket.at).total_seconds(), 0.0)
        bucket.tokens = min(bucket.tokens + elapsed * per_minute / 60, float(per_minute))
        bucket.at = max(now, bucket.at)
        return bucket


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
