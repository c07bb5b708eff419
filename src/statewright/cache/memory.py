"""A cache in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from statewright.cache.port import CacheKey
from statewright.clock import Clock, SystemClock


class InMemoryCache:
    """Keeps results in a dict; safe to use from several threads. Above `max_size`, the oldest are removed."""

    def __init__(self, *, max_size: int = 10_000, clock: Clock | None = None) -> None:
        self._max_size = max_size
        self._clock = clock or SystemClock()
        self._results: dict[CacheKey, tuple[Any, float | None]] = {}
        """Results and their expiry, the oldest first."""
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> Any:
        with self._lock:
            value, until = self._results.get(key, (None, None))
            if until is not None and self._clock.monotonic() >= until:
                del self._results[key]
                return None
        return value

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        with self._lock:
            self._results.pop(key, None)  # so that the result becomes the last one
            self._results[key] = (value, None if ttl is None else self._clock.monotonic() + ttl)
            while len(self._results) > self._max_size:
                del self._results[next(iter(self._results))]

    def clear(self, nodes: Sequence[str] | None = None) -> None:
        with self._lock:
            self._results = (
                {} if nodes is None else {key: value for key, value in self._results.items() if key.node not in nodes}
            )
