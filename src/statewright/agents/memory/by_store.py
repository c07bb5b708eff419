"""Which texts are nearest in meaning, by the search of a store, which keeps the vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from statewright.agents.memory.lately_used import LRUCache
from statewright.fingerprint import fingerprint
from statewright.store import Namespace, Store

_KNOWN: Final = 10_000
"""Of how many items it is remembered that they are in the store."""


class ByStore:
    """Puts each text into a store once, and asks the store.

    The items of a namespace may be more than the texts that are asked for, say those of messages that were removed;
    such are passed over.
    """

    def __init__(self) -> None:
        self._store: Store | None = None
        self._is_there: LRUCache[bool] = LRUCache(_KNOWN)
        """What the store is known to hold, by namespace and key."""

    async def nearest(
        self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int
    ) -> list[int]:
        """The numbers of the texts that are nearest to the query, the nearest first."""
        return await asyncio.to_thread(self._nearest, store, namespace, query, texts, count)

    def _nearest(self, store: Store, namespace: Namespace, query: str, texts: Sequence[str], count: int) -> list[int]:
        if store is not self._store:
            self._store, self._is_there = store, LRUCache(_KNOWN)
        by_key = {fingerprint(text): n for n, text in enumerate(texts)}
        for key, n in by_key.items():
            self._put(store, namespace, key, texts[n])
        return _found(store, namespace, query, by_key, count)

    def _put(self, store: Store, namespace: Namespace, key: str, text: str) -> None:
        place = f"{namespace} {key}"
        if self._is_there.get(place):
            return
        if store.get(namespace, key) is None:
            store.put(namespace, key, {"text": text})
        self._is_there.put(place, True)


def _found(store: Store, namespace: Namespace, query: str, by_key: Mapping[str, int], count: int) -> list[int]:
    """What the store finds of these keys, page by page."""
    found: list[int] = []
    offset, size = 0, max(2 * count, 10)
    while len(found) < count:
        page = store.search(namespace, query=query, limit=size, offset=offset)
        found.extend(by_key[item.key] for item in page if item.key in by_key)
        offset += size
        if len(page) < size:
            break
    return found[:count]
