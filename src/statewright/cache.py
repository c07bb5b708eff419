"""The port of caches for the results of nodes, and its in-memory implementation."""

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
    """The graph, the node, and the version of its code."""
    input: str
    """A fingerprint of the input of the node."""


@runtime_checkable
class Cache(Protocol):
    """Keeps results for a limited time. A method returns its result, or a future of it."""

    def get(self, key: CacheKey) -> MaybeFuture[Any]:
        """Return the value of a key; None if there is none or it has expired."""
        ...

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> MaybeFuture[None]:
        """Store a value. It expires after `ttl` seconds, if that is given."""
        ...

    def clear(self, nodes: Sequence[str] | None = None) -> MaybeFuture[None]:
        """Remove all results, or those of some nodes."""
        ...


class InMemoryCache:
    """Keeps results in a dict, and removes the oldest above `max_size`. Thread-safe."""

    def __init__(self, *, max_size: int = 10_000, clock: Clock | None = None) -> None:
        self._max_size = max_size
        self._clock = clock or SystemClock()
        self._results: dict[CacheKey, tuple[Any, float | None]] = {}
        """Results with the times at which they expire, oldest first."""
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
            self._results.pop(key, None)  # the new entry must become the last one
            self._results[key] = (value, None if ttl is None else self._clock.monotonic() + ttl)
            while len(self._results) > self._max_size:
                del self._results[next(iter(self._results))]

    def clear(self, nodes: Sequence[str] | None = None) -> None:
        with self._lock:
            self._results = (
                {} if nodes is None else {key: value for key, value in self._results.items() if key.node not in nodes}
            )
