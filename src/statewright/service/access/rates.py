"""Rate limits: token buckets in the memory of this process, and the limit on the starts of runs in a workspace."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import TooManyRequests
from statewright.lru_cache import LRUCache
from statewright.runs import Ledger, Workspace

_MAX_BUCKETS: Final = 10_000
_ROUNDING: Final = 1e-9
"""Tolerance for rounding errors, so that a caller that waits exactly `retry_after` seconds is not refused."""


class RateLimiter:
    """Limits requests by key. Each key has a token bucket that holds one minute's requests and refills evenly.

    If there are more than `max_buckets` keys, the least recently used bucket is dropped, and its key starts again with
    a full bucket. A limiter must be used from one event loop only.
    """

    def __init__(self, max_buckets: int = _MAX_BUCKETS) -> None:
        self._buckets: LRUCache[Hashable, tuple[float, datetime]] = LRUCache(max_buckets)
        """For each key, the number of tokens in its bucket, and the time of that number."""

    def check(self, key: Hashable, per_minute: int | None, now: datetime) -> None:
        """Take a token from a key's bucket. Raises TooManyRequests if no token is left.

        `per_minute` is the size of the bucket; None for no limit.
        """
        if per_minute is None:
            return
        tokens, at = self._refill(key, per_minute, now)
        if tokens < 1 - _ROUNDING:
            seconds = (1 - tokens) * 60 / per_minute
            raise TooManyRequests(
                f"At most {per_minute} per minute are allowed. Try again in {seconds:.1f} seconds.",
                retry_after=seconds,
            )
        self._buckets.put(key, (max(tokens - 1, 0.0), at))

    def remaining(self, key: Hashable, per_minute: int, now: datetime) -> int:
        """Return the number of tokens that are left in a bucket."""
        return int(self._refill(key, per_minute, now)[0] + _ROUNDING)

    def _refill(self, key: Hashable, per_minute: int, now: datetime) -> tuple[float, datetime]:
        """Return the tokens in a bucket after refilling it, and the time of the refill."""
        tokens, at = self._buckets.get(key) or (float(per_minute), now)
        elapsed = max((now - at).total_seconds(), 0.0)
        return min(tokens + elapsed * per_minute / 60, float(per_minute)), max(now, at)


# -- starts of runs

_MAX_CACHED_LIMITS: Final = 1000
CACHE_TIME: Final = timedelta(seconds=5)
"""The time for which a cached limit is used."""


class StartLimits:
    """Limits the number of runs that a workspace starts per minute.

    If another process changes the limit, the change takes effect within `CACHE_TIME`.
    """

    def __init__(self, ledger: Ledger, rates: RateLimiter) -> None:
        self._ledger = ledger
        self._rates = rates
        self._cache: LRUCache[str, tuple[int | None, datetime]] = LRUCache(_MAX_CACHED_LIMITS)
        """Limits by workspace, each with the time at which it was read."""

    async def check(self, workspace_id: str, now: datetime) -> None:
        """Count a start of a run. Raises TooManyRequests if the limit of the workspace is exceeded."""
        self._rates.check(("starts", workspace_id), await self._limit(workspace_id, now), now)

    def forget(self, workspace_id: str) -> None:
        """Remove the limit of a workspace from the cache, after it was changed."""
        self._cache.pop(workspace_id)

    async def _limit(self, workspace_id: str, now: datetime) -> int | None:
        entry = self._cache.get(workspace_id)
        if entry is not None and abs(now - entry[1]) < CACHE_TIME:
            return entry[0]
        workspace: Workspace | None = await aresolve(self._ledger.get(Workspace, workspace_id))
        limit = workspace.starts_per_minute if workspace is not None else None
        self._cache.put(workspace_id, (limit, now))
        return limit
