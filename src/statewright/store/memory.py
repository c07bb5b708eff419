"""A store in memory, for tests and for programs that need not keep their data."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from statewright.clock import Clock, Duration, as_seconds
from statewright.page import cut_page
from statewright.store.filters import check_conditions, matches
from statewright.store.model import Index, Item, Namespace, SearchItem, TimeToLive, check_key, check_namespace
from statewright.store.port import ConfiguredStore
from statewright.store.vectors import Vector, embed_texts, require_index, similarity

ItemKey = tuple[Namespace, str]
"""The namespace and key of an item."""


class _Entry:
    """An item with its vectors and its time of expiry. Times are in seconds, by the monotonic clock."""

    __slots__ = ("item", "ttl", "until", "vectors")

    def __init__(self, item: Item, vectors: Sequence[Vector], ttl: float | None, now: float) -> None:
        self.item = item
        self.vectors = vectors
        self.ttl = ttl
        self.until = None if ttl is None else now + ttl

    def is_expired(self, now: float) -> bool:
        return self.until is not None and now >= self.until

    def refresh(self, now: float) -> None:
        if self.ttl is not None:
            self.until = now + self.ttl


class InMemoryStore(ConfiguredStore):
    """Stores copies of items in memory. Thread-safe. Semantic search compares the query with every vector."""

    def __init__(
        self, *, index: Index | None = None, ttl: TimeToLive | None = None, clock: Clock | None = None
    ) -> None:
        super().__init__(index, ttl, clock)
        self._entries: dict[ItemKey, _Entry] = {}
        """The entries, least recently updated first."""
        self._lock = threading.Lock()

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        now = self._clock.monotonic()
        with self._lock:
            entry = self._entries.get((namespace, key))
            if entry is None or entry.is_expired(now):
                return None
            self._refresh(entry, now, refresh_ttl)
            return copy.deepcopy(entry.item)

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: bool | Sequence[str] | None = None,
        ttl: Duration | None = None,
    ) -> None:
        item_key = (check_namespace(namespace), check_key(key))
        own_value = copy.deepcopy(dict(value))
        texts = self._texts_to_embed(own_value, index)
        # Computed before the lock is taken, because embedding may call a model.
        vectors = embed_texts(self._index, texts) if self._index is not None else ()
        duration = self._ttl.default if ttl is None else ttl
        now = self._clock.now()
        with self._lock:
            previous = self._entries.pop(item_key, None)  # removed, so that the new entry becomes the last of the dict
            is_update = previous is not None and not previous.is_expired(self._clock.monotonic())
            created_at = previous.item.created_at if previous is not None and is_update else now
            item = Item(namespace=namespace, key=key, value=own_value, created_at=created_at, updated_at=now)
            seconds = None if duration is None else as_seconds(duration)
            self._entries[item_key] = _Entry(item, vectors, seconds, self._clock.monotonic())

    def delete(self, namespace: Namespace, key: str) -> None:
        with self._lock:
            self._entries.pop((namespace, key), None)

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the usual name
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        check_conditions(filter or {})
        vector = None if query is None else embed_texts(require_index(self._index), [query])[0]
        now = self._clock.monotonic()
        with self._lock:
            newest_first = [entry for entry in reversed(self._entries.values()) if not entry.is_expired(now)]
            scored = [
                (_score(entry, vector), entry)
                for entry in newest_first
                if _matches(entry.item.namespace[: len(prefix)], prefix) and matches(entry.item.value, filter or {})
            ]
            if vector is not None:
                scored = [pair for pair in scored if pair[0] is not None]
                # The sort is stable, so items with equal scores remain in the order newest first.
                scored.sort(key=lambda pair: -(pair[0] or 0.0))
            page = scored[cut_page(limit, offset)]
            for _, entry in page:
                self._refresh(entry, now, refresh_ttl)
            return [_search_item(entry.item, score) for score, entry in page]

    def list_namespaces(
        self,
        *,
        prefix: Namespace = (),
        suffix: Namespace = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        now = self._clock.monotonic()
        with self._lock:
            used = {namespace for (namespace, _), entry in self._entries.items() if not entry.is_expired(now)}
        namespaces = {
            namespace[:max_depth]
            for namespace in used
            if _matches(namespace[: len(prefix)], prefix)
            and _matches(namespace[len(namespace) - len(suffix) :], suffix)
        }
        return sorted(namespaces)[cut_page(limit, offset)]

    def sweep(self) -> int:
        """Remove the expired items, and return their number."""
        now = self._clock.monotonic()
        with self._lock:
            expired = [item_key for item_key, entry in self._entries.items() if entry.is_expired(now)]
            for item_key in expired:
                del self._entries[item_key]
        return len(expired)

    def _refresh(self, entry: _Entry, now: float, refresh: bool | None) -> None:
        if self._should_refresh(refresh):
            entry.refresh(now)


def _score(entry: _Entry, query: Vector | None) -> float | None:
    """Return the similarity of an item's most similar text to a query; None if there is no query or no vector."""
    if query is None or not entry.vectors:
        return None
    return max(similarity(vector, query) for vector in entry.vectors)


def _matches(labels: Namespace, pattern: Namespace) -> bool:
    """Return whether labels match a pattern, in which `"*"` matches any label."""
    if len(labels) != len(pattern):
        return False
    return all(expected in ("*", label) for expected, label in zip(pattern, labels, strict=True))


def _search_item(item: Item, score: float | None) -> SearchItem:
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=copy.deepcopy(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=score,
    )
