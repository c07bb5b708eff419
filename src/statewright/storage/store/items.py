"""Reading and writing of items as rows of a database.

A namespace is stored as a text with a dot after each label. Labels contain no dots, so the namespaces that begin with a
prefix are a range in the order of texts, and `users.4.` is not a prefix of `users.42.`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from statewright.clock import instant_of
from statewright.errors import InvalidConfig
from statewright.ids import is_unicode
from statewright.page import cut_page
from statewright.storage.damage import report_damage
from statewright.storage.database import Connection, Database
from statewright.store import Item, Namespace, SearchItem
from statewright.store.filters import matches
from statewright.store.vectors import Vector, pack_vectors, score_items

ItemKey = dict[str, str]
"""The stored namespace and the key of an item, as the parameters `namespace` and `key` of statements."""


class VectorSearch(Protocol):
    """Compares vectors in the database."""

    def put(self, connection: Connection, item: int, vectors: Iterable[Vector]) -> None:
        """Store the vectors of an item."""
        ...

    def others(self, connection: Connection, bounds: Mapping[str, Any]) -> Iterable[Any]:
        """Return the rows of a range of namespaces that have to be compared here, or have other dimensions."""
        ...

    def nearest(
        self,
        connection: Connection,
        query: Vector,
        bounds: Mapping[str, Any],
        pattern: str | None,
        decode: Callable[[bytes], bytes],
        others: Sequence[tuple[int, float]],
    ) -> Iterable[tuple[int, float]]:
        """Return the numbers of items with their similarities to a query, most similar first."""
        ...


_ANY_LABEL = r"[^.]+\."


class Items:
    """Reads and writes items with a connection, in one transaction."""

    def __init__(
        self, database: Database, connection: Connection, now: int, vector_search: VectorSearch | None = None
    ) -> None:
        """`now` is the current time in microseconds since 1970, by which items expire. `vector_search` compares vectors
        in the database; if it is None, they are compared here.
        """
        self._vector_search = vector_search
        self._database = database
        self._connection = connection
        self._sql = database.statements("items")
        self._now = now
        self.items_to_refresh: list[tuple[int, int]] = []
        """The current time and the number of each item that was read and whose time to live has to restart."""

    def get(self, namespace: Namespace, key: str, *, refresh: bool) -> Item | None:
        item_key = item_key_of(namespace, key)
        if item_key is None or not self._can_store(*item_key.values()):
            return None
        row = self._connection.execute(self._sql["item"], {**item_key, "now": self._now}).fetchone()
        return self._item(Item, row, refresh) if row is not None else None

    def put(self, item_key: ItemKey, value: bytes, *, vectors: Sequence[Vector], ttl: int | None) -> None:
        """Store an encoded value, which expires after `ttl` microseconds; None if it never expires."""
        number = 0
        while not number:  # another process may insert the item after it was looked for here
            number = self._replace(item_key, value, ttl)
        if vectors:
            packed = self._database.encode(pack_vectors(vectors))
            self._connection.execute(self._sql["put_vectors"], (number, len(vectors[0]), packed))
            if self._vector_search is not None:
                self._vector_search.put(self._connection, number, vectors)

    def _replace(self, item_key: ItemKey, value: bytes, ttl: int | None) -> int:
        """Replace or insert an item without vectors, and return its number; 0 if another process has inserted it."""
        replaced, created_at, until = self._connection.execute(self._sql["id"], item_key).fetchone() or (None,) * 3
        self._connection.execute(self._sql["delete_vectors"], (replaced,))
        is_update = until is None or until > self._now
        row = {
            **item_key,
            "replaced": replaced,
            "created_at": created_at if is_update else None,
            "now": self._now,
            "ttl": ttl,
            "value": value,
        }
        return self._database.insert(self._connection, self._sql["put"], row)

    def delete(self, namespace: Namespace, key: str) -> None:
        item_key = item_key_of(namespace, key)
        if item_key is None or not self._can_store(*item_key.values()):
            return
        for number, *_ in self._connection.execute(self._sql["id"], item_key).fetchall():
            self._connection.execute(self._sql["delete_vectors"], (number,))
            self._connection.execute(self._sql["delete"], (number,))

    def search(
        self,
        prefix: Namespace,
        *,
        query: Vector | None,
        conditions: Mapping[str, Any],
        limit: int,
        offset: int,
        refresh: bool,
    ) -> list[SearchItem]:
        """Return the items under a prefix that meet the conditions.

        They are in order of similarity to `query`, or most recently updated first if `query` is None.
        """
        if path_of(prefix) is None or not self._can_store(*prefix):
            return []
        candidates = self._by_update(prefix) if query is None else self._by_similarity(prefix, query)
        rows = ((self._row(number), score) for number, score in candidates)
        matching = (
            (row, score)
            for row, score in rows
            # In a transaction that writes, an item may be gone that another process has updated or deleted meanwhile.
            if row is not None and (not conditions or matches(self._value(row), conditions))
        )
        bounds = cut_page(limit, offset)
        page = list(itertools.islice(matching, bounds.start, bounds.stop))
        return [self._item(SearchItem, row, refresh, score=score) for row, score in page]

    def namespaces(self, prefix: Namespace, suffix: Namespace, max_depth: int | None) -> list[Namespace]:
        """Return the namespaces that contain items and have a prefix and a suffix, sorted.

        If `max_depth` is not None, only the first `max_depth` labels of each are returned.
        """
        if path_of(prefix) is None or path_of(suffix) is None or not self._can_store(*prefix):
            return []
        starts, ends = _pattern(prefix), re.compile(r"(?:\A|(?<=\.))" + _pattern(suffix).pattern + r"\Z")
        rows = self._connection.execute(self._sql["namespaces"], self._range(prefix))
        paths = [path for (path,) in rows if starts.match(path) and ends.search(path)]
        return sorted({_namespace_of(path)[:max_depth] for path in paths})

    def sweep(self) -> int:
        """Remove the expired items, and return their number."""
        # The items first: another process may refresh one that has expired until it is deleted.
        numbers = [number for (number,) in self._connection.execute(self._sql["delete_over"], {"now": self._now})]
        self._connection.execute(self._sql["delete_vectors_of"], (json.dumps(numbers),))
        return len(numbers)

    def _can_store(self, *texts: str) -> bool:
        """Return False if no item of the database can have these names. Files may have items of earlier versions."""
        return self._database.has_null_characters or not any("\0" in text for text in texts)

    def _row(self, number: int) -> Any:
        """Return the row of an item; None if it is gone."""
        return self._connection.execute(self._sql["found"], {"id": number}).fetchone()

    def _by_update(self, prefix: Namespace) -> Iterator[tuple[int, None]]:
        """Yield the numbers of the items under a prefix, most recently updated first."""
        pattern, statement = _pattern(prefix), "under" if prefix else "all"
        for number, path in self._connection.execute(self._sql[statement], self._range(prefix)):
            if pattern.match(path):
                yield number, None

    def _by_similarity(self, prefix: Namespace, query: Vector) -> Iterable[tuple[int, float]]:
        """Return the numbers of the items under a prefix with their similarities to a query, most similar first.

        Items with equal similarities are in the order of their last updates, newest first.
        """
        # Each update gives an item a new number, which is larger than all earlier numbers.
        bounds, search = self._range(prefix), self._vector_search
        if search is None:
            rows = self._connection.execute(self._sql["vectors"], bounds)
            return sorted(
                score_items(query, self._vectors(rows, prefix, len(query))), key=lambda item: (-item[1], -item[0])
            )
        others = score_items(query, self._vectors(search.others(self._connection, bounds), prefix, len(query)))
        pattern = f"^{_pattern(prefix).pattern}" if "*" in prefix else None
        return search.nearest(self._connection, query, bounds, pattern, self._decode, list(others))

    def _vectors(self, rows: Iterable[Any], prefix: Namespace, dims: int) -> Iterator[tuple[int, bytes]]:
        """Yield the numbers and the packed vectors of the items under a prefix, from rows of a range of namespaces.

        Raises InvalidConfig if the vectors of an item have another number of dimensions than `dims`.
        """
        pattern = _pattern(prefix)
        for number, path, stored_dims, vectors in rows:
            if not pattern.match(path):
                continue
            if stored_dims != dims:
                raise InvalidConfig(
                    f"The store's index has vectors of {dims} numbers, but items in {_namespace_of(path)!r} were put "
                    f"with vectors of {stored_dims}. Put them again, or use the index with which they were put."
                )
            yield number, self._decode(vectors)

    def _range(self, prefix: Namespace) -> dict[str, Any]:
        """Return the bounds of the stored namespaces that have the labels of a prefix before its first `"*"`.

        They are parameters of statements, together with the current time.
        """
        path = "".join(f"{label}." for label in itertools.takewhile(lambda label: label != "*", prefix))
        # "/" is the character after ".".
        beyond = path.removesuffix(".") + "/" if path else self._database.AFTER_ALL_TEXT
        return {"first": path, "beyond": beyond, "now": self._now}

    def _item(self, cls: type[Any], row: Sequence[Any], refresh: bool, **options: Any) -> Any:
        """Return an item of class `cls` from a row; `options` are further arguments of the class."""
        number, path, key, created_at, updated_at, ttl, _ = row
        if refresh and ttl is not None:
            self.items_to_refresh.append((self._now, number))
        with report_damage("an item"):
            return cls(
                namespace=_namespace_of(path),
                key=key,
                value=self._value(row),
                created_at=instant_of(created_at),
                updated_at=instant_of(updated_at),
                **options,
            )

    def _value(self, row: Sequence[Any]) -> dict[str, Any]:
        return cast("dict[str, Any]", self._decode(row[-1]))

    def _decode(self, stored: bytes) -> Any:
        with report_damage("an item"):
            return self._database.decode(stored)


def path_of(namespace: Namespace) -> str | None:
    """Return the text that is stored for a namespace; None if the namespace is not valid, so that it cannot exist."""
    labels = cast("tuple[object, ...]", namespace)  # users may pass values of any type
    if not all(isinstance(label, str) and "." not in label for label in labels):
        return None
    path = "".join(f"{label}." for label in labels)
    return path if is_unicode(path) else None


def item_key_of(namespace: Namespace, key: object) -> ItemKey | None:
    """Return the stored namespace and the key of an item; None if they are not valid, so that it cannot exist."""
    path = path_of(namespace)
    return {"namespace": path, "key": key} if path is not None and isinstance(key, str) and is_unicode(key) else None


def _namespace_of(path: str) -> Namespace:
    return tuple(path.split(".")[:-1])


def _pattern(labels: Namespace) -> re.Pattern[str]:
    """Return a pattern that matches the beginning of a stored namespace; the label `"*"` matches any label."""
    return re.compile("".join(_ANY_LABEL if label == "*" else re.escape(label) + r"\." for label in labels))
