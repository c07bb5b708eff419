"""A store in memory: for tests, and for programs that need no more."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from typing import Any

from statewright.clock import Clock, SystemClock
from statewright.errors import InvalidUpdateError
from statewright.store.model import Item, Namespace, SearchItem, checked_namespace

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda found, wanted: found == wanted,
    "$ne": lambda found, wanted: found != wanted,
    "$gt": lambda found, wanted: found > wanted,
    "$gte": lambda found, wanted: found >= wanted,
    "$lt": lambda found, wanted: found < wanted,
    "$lte": lambda found, wanted: found <= wanted,
}


class InMemoryStore:
    """Keeps copies in a dict; safe to use from several threads."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._items: dict[tuple[Namespace, str], Item] = {}
        self._lock = threading.Lock()

    def get(self, namespace: Namespace, key: str) -> Item | None:
        return copy.deepcopy(self._items.get((namespace, key)))

    def put(self, namespace: Namespace, key: str, value: Mapping[str, Any]) -> None:
        now = self._clock.now()
        with self._lock:
            former = self._items.pop((namespace, key), None)  # popped: the last updated stands last
            self._items[checked_namespace(namespace), key] = Item(
                namespace=namespace,
                key=key,
                value=copy.deepcopy(dict(value)),
                created_at=former.created_at if former else now,
                updated_at=now,
            )

    def delete(self, namespace: Namespace, key: str) -> None:
        with self._lock:
            self._items.pop((namespace, key), None)

    def search(
        self,
        prefix: Namespace,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002  # the field's word
        limit: int = 10,
        offset: int = 0,
    ) -> list[SearchItem]:
        with self._lock:
            newest_first = list(reversed(self._items.values()))
        found = [
            item
            for item in newest_first
            if item.namespace[: len(prefix)] == prefix and _matches(item.value, filter or {})
        ]
        return [_search_item(item) for item in found[offset : offset + limit]]

    def list_namespaces(
        self, *, prefix: Namespace = (), max_depth: int | None = None, limit: int = 100, offset: int = 0
    ) -> list[Namespace]:
        with self._lock:
            namespaces = {namespace[:max_depth] for namespace, _ in self._items}
        return sorted(one for one in namespaces if one[: len(prefix)] == prefix)[offset : offset + limit]


def _search_item(item: Item) -> SearchItem:
    return SearchItem(
        namespace=item.namespace,
        key=item.key,
        value=copy.deepcopy(item.value),
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(key in value and _fits(value[key], condition) for key, condition in wanted.items())


def _fits(found: Any, condition: Any) -> bool:
    """Whether a value meets a condition: `{"$gt": 3}`, or a value to equal."""
    if not (isinstance(condition, dict) and any(str(key).startswith("$") for key in condition)):  # pyright: ignore
        return bool(found == condition)
    return all(_operator(str(name))(found, wanted) for name, wanted in condition.items())  # pyright: ignore


def _operator(name: str) -> Callable[[Any, Any], bool]:
    try:
        return _OPERATORS[name]
    except KeyError:
        raise InvalidUpdateError(
            f"Unknown operator {name!r} in a search filter. Operators: {', '.join(_OPERATORS)}."
        ) from None
