"""A thread-safe cache that keeps only the most recently used entries."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    """A map of at most `size` entries, from which the least recently used entries are dropped. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()
        # Reentrant: a signal handler that logs may use the cache while the interrupted code holds the lock.
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of a key, and mark the key as the most recently used; return None if there is no value."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, and drop the least recently used entries above the limit."""
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Remove and return the value of a key; None if there is none."""
        with self._lock:
            return self._entries.pop(key, None)

    def items(self) -> list[tuple[K, V]]:
        """Return the entries, least recently used first."""
        with self._lock:
            return list(self._entries.items())
