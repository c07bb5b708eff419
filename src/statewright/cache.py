"""The port for caches of node results, and its in-memory implementation."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from statewright.clock import Clock, SystemClock
from statewright.futures import MaybeFuture

__all__ = ["Cache", "CacheKey", "InMemoryCache"]


class CacheKey(NamedTuple):
    """The key of a cached result."""

    node: str
    """The name of the node, preceded by that of its graph: `graph/node`."""
    input: str
    """A fingerprint of the input of the node and of the version of the node's code."""


@runtime_checkable
class Cache(Protocol):
    """Keeps the results of nodes for a limited time. Each method returns either its result or a future of it."""

    def get(self, key: CacheKey) -> MaybeFuture[Any]:
        """Return the value under a key; None if there is none, or if it has expired."""
        ...

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> MaybeFuture[None]:
        """Store a value under a key. It expires after `ttl` seconds; with None, it does not expire."""
        ...

    def clear(self, nodes: Sequence[str] | None = None) -> MaybeFuture[None]:
        """Remove all results, or only those whose `CacheKey.node` is in `nodes`."""
        ...


class InMemoryCache:
    """Keeps results in a dict, and removes the oldest if there are more than `max_size`. Thread-safe."""

    def __init__(self, *, max_size: int = 10_000, clock: Clock | None = None) -> None:
        self._max_size = max_size
        self._clock = clock or SystemClock()
        self._results: dict[CacheKey, tuple[Any, float | None]] = {}
        """Results and the monotonic times at which they expire (None if they do not), oldest first."""
        self._lock = threading.Lock()

    def get(self, key: CacheKey) -> Any:
        with self._lock:
            value, expires_at = self._results.get(key, (None, None))
            if expires_at is not None and self._clock.monotonic() >= expires_at:
                del self._results[key]
                return None
        return value

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> None:
        with self._lock:
            self._results.pop(key, None)  # the new entry must become the last one
            self._results[key] = (value, None if ttl is None else self._clock.monotonic() + ttl)
            while len(self._results) > self._max_size:
                del self._results[next(iter(self._results))]

    def clear(self, nodes: Sequence[str] | None = None) -> None:
        with self._lock:
            self._results = (
                {} if nodes is None else {key: value for key, value in self._results.items() if key.node not in nodes}
            )
