"""A map that cannot grow without end: what is remembered of work that may never be told to have ended."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MAX_ENTRIES: Final = 10_000
"""Entries of a map, unless its maker says otherwise."""


class BoundedMap(Generic[K, V]):
    """Keeps the entries that were put last. May be used from any thread."""

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        self._most = most
        self._entries: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V) -> None:
        """Keep a value under a key; the oldest entry goes if there are too many."""
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = value
            if len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def take(self, key: K) -> V | None:
        """The value of a key, which is forgotten; None if there is none."""
        with self._lock:
            return self._entries.pop(key, None)
