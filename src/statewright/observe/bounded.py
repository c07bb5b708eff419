"""A map with a size limit, for work whose end may never be reported."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MAX_ENTRIES: Final = 10_000
"""Default number of entries."""


class BoundedMap(Generic[K, V]):
    """Keeps the entries that were added last. Thread-safe."""

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._most = most
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, and drop the oldest entry if there are too many."""
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def take(self, key: K) -> V | None:
        """Remove and return the value of a key; None if there is none."""
        with self._lock:
            return self._entries.pop(key, None)
