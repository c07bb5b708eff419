"""A cache in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from statewright.cache.port import CacheKey
from statewright.clock import Clock, SystemClock


class InMemoryCache:
    """Keeps results in a dict; safe to use from several threads. The oldest goes when there are too many."""

    def __init__(self, *, max_size: int = 10_000, clock: Clock | None = None) -> None:
        self._max_size = max_size
        self._clock = clock or SystemClock()
        self._kept: dict[CacheKey, tuple[Any, float | None]] = {}
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> Any:
        with self._lock:
            value, until = self._kept.get(key, (None, None))
            if until is not None and self._clock.monotonic() >= until:
                del self._kept[key]
                return None
        return value

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        with self._lock:
            self._kept.pop(key, None)  # so that what was written last stands last
            self._kept[key] = (value, None if ttl is None else self._clock.monotonic() + ttl)
            while len(self._kept) > self._max_size:
                del self._kept[next(iter(self._kept))]

    def clear(self, nodes: Sequence[str] | None = None) -> None:
        with self._lock:
            kept = {} if nodes is None else {k: v for k, v in self._kept.items() if k.node not in nodes}
            self._kept = kept
