"""A store in memory: for tests, and for programs that need no more."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from statewright.clock import Clock, Duration, SystemClock, Timer, as_seconds
from statewright.errors import InvalidUpdateError
from statewright.page import cut_page
from statewright.store.filters import matches
from statewright.store.model import Index, Item, Namespace, SearchItem, TimeToLive, checked_namespace
from statewright.store.port import StoreFace
from statewright.store.vectors import Vector, embedded, similarity, texts_at

Place = tuple[Namespace, str]


class _Kept:
    """An item with its vectors and its expiry."""

    __slots__ = ("item", "ttl", "until", "vectors")

    def __init__(self, item: Item, vectors: Sequence[Vector], ttl: float | None, now: float) -> None:
        self.item = item
        self.vectors = vectors
        self.ttl = ttl
        self.until = None if ttl is None else now + ttl

    def is_over(self, now: float) -> bool:
        return self.until is not None and now >= self.until

    def refresh(self, now: float) -> None:
        if self.ttl is not None:
            self.until = now + self.ttl


class InMemoryStore(StoreFace):
    """Keeps copies in a dict; safe to use from several threads. Search by meaning compares every vector."""

    def __init__(
        self, *, index: Index | None = None, ttl: TimeToLive | None = None, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._index = index
        self._ttl = ttl or TimeToLive()
        self._kept: dict[Place, _Kept] = {}
        self._lock = threading.Lock()
        self._sweeper: Timer | None = None

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        now = self._clock.monotonic()
        with self._lock:
            kept = self._kept.get((namespace, key))
            if kept is None or kept.is_over(now):
                return None
            self._read(kept, now, refresh_ttl)
            return copy.deepcopy(kept.item)

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: bool | Sequence[str] | None = None,
        ttl: Duration | None = None,
    ) -> None:
        place = (checked_namespace(namespace), key)
        own = copy.deepcopy(dict(value))
        vectors = self._vectors(own, index)  # before the lock: it may ask a model
        lives = self._ttl.default if ttl is None else ttl
        now = self._clock.now()
        with self._lock:
            former = self._kept.pop(place, None)  # popped: the last updated stands last
            lived = former is not None and not former.is_over(self._clock.monotonic())
            created_at = former.item.created_at if former is not None and lived else now
            item = Item(namespace=namespace, key=key, value=own, created_at=created_at, updated_at=now)
            seconds = None if lives is None else as_seconds(lives)
            self._kept[place] = _Kept(item, vectors, seconds, self._clock.monotonic())

    def delete(self, namespace: Namespace, key: str) -> None:
        with self._lock:
            self._kept.pop((namespace, key), None)

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        wanted = self._wanted(query)
        now = self._clock.monotonic()
        with self._lock:
            newest_first = [kept for kept in reversed(self._kept.values()) if not kept.is_over(now)]
            found = [
                (_score(kept, wanted), kept)
                for kept in newest_first
                if _fits(kept.item.namespace[: len(prefix)], prefix) and matches(kept.item.value, filter or {})
            ]
            if wanted is not None:
                found = sorted((one for one in found if one[0] is not None), key=_nearest_first)
            shown = found[cut_page(limit, offset)]
            for _, kept in shown:
                self._read(kept, now, refresh_ttl)
            return [_search_item(kept.item, score) for score, kept in shown]

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
            used = {namespace for (namespace, _), kept in self._kept.items() if not kept.is_over(now)}
        found = {
            namespace[:max_depth]
            for namespace in used
            if _fits(namespace[: len(prefix)], prefix) and _fits(namespace[len(namespace) - len(suffix) :], suffix)
        }
        return sorted(found)[cut_page(limit, offset)]

    def sweep(self) -> int:
        """Remove the items whose time is over; how many there were."""
        now = self._clock.monotonic()
        with self._lock:
            over = [place for place, kept in self._kept.items() if kept.is_over(now)]
            for place in over:
                del self._kept[place]
        return len(over)

    def start_sweeper(self) -> None:
        """Sweep from time to time, until `close()`."""
        self.close()
        self._sweeper = self._clock.call_later(as_seconds(self._ttl.sweep_every), self._sweep_again)

    def _sweep_again(self) -> None:
        self.sweep()
        self.start_sweeper()

    def close(self) -> None:
        """Stop sweeping."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _read(self, kept: _Kept, now: float, refresh: bool | None) -> None:
        if self._ttl.refresh_on_read if refresh is None else refresh:
            kept.refresh(now)

    def _vectors(self, value: Mapping[str, Any], index: bool | Sequence[str] | None) -> Sequence[Vector]:
        if self._index is None or index is False:
            return ()
        paths = self._index.fields if index is None or index is True else index
        return embedded(self._index, texts_at(value, paths))

    def _wanted(self, query: str | None) -> Vector | None:
        if query is None:
            return None
        if self._index is None:
            raise InvalidUpdateError(
                "A search by meaning needs an index: give the store index=Index(dims=..., embed=...)."
            )
        return embedded(self._index, [query])[0]


def _score(kept: _Kept, wanted: Vector | None) -> float | None:
    """Return the similarity of the nearest part of an item; None without a query or comparable vectors."""
    if wanted is None or not kept.vectors:
        return None
    return max(similarity(vector, wanted) for vector in kept.vectors)


def _nearest_first(found: tuple[float | None, _Kept]) -> float:
    return -(found[0] or 0.0)


def _fits(labels: Namespace, pattern: Namespace) -> bool:
    """Return whether labels match a pattern, in which `"*"` stands for any label."""
    return len(labels) == len(pattern) and all(p in ("*", label) for p, label in zip(pattern, labels, strict=True))


def _search_item(item: Item, score: float | None) -> SearchItem:
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=copy.deepcopy(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
        score=score,
    )
