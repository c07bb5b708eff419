"""The items of a store as rows, within one transaction at one time.

A namespace is stored with a dot after each label. Labels have no dots, so the namespaces under a prefix are a range of
texts, and `users.4.` is not a prefix of `users.42.`. Single-line statements are constants here, others are in `sql/`.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from statewright.checkpoint.forms import instant_of
from statewright.errors import InvalidConfig
from statewright.ids import is_unicode
from statewright.page import cut_page
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.faults import reading
from statewright.storage.sqlite.statements import statements
from statewright.storage.sqlite.store.similarity import Vector, packed, scored
from statewright.store import Item, Namespace, SearchItem
from statewright.store.filters import matches

_SQL: Final = statements("items")

Place = dict[str, str]


_ANY_LABEL = r"[^.]+\."
_BEYOND = b""
"""Comes after every text: SQLite orders bytes after texts."""


class Items:
    """The items of a database, as a connection sees them at an instant."""

    def __init__(self, database: SqliteDatabase, connection: sqlite3.Connection, now: int) -> None:
        self._database = database
        self._connection = connection
        self.now = now
        self.read: list[int] = []
        """The numbers of items that were shown, and whose time begins anew: see `begin_anew`."""

    def get(self, namespace: Namespace, key: str, *, refresh: bool) -> Item | None:
        place = place_of(namespace, key)
        if place is None:
            return None
        row = self._connection.execute(_SQL["item"], {**place, "now": self.now}).fetchone()
        return self._shown(Item, row, refresh) if row is not None else None

    def put(self, place: Place, value: bytes, *, vectors: Sequence[Vector], ttl: int | None) -> None:
        """Keep a value that was closed, for `ttl` microseconds if given."""
        number, created_at, until = self._connection.execute(_SQL["id"], place).fetchone() or (None, None, None)
        self._connection.execute(_SQL["delete_vectors"], (number,))
        lived = until is None or until > self.now
        row = {**place, "created_at": created_at if lived else None, "now": self.now, "ttl": ttl, "value": value}
        number = self._connection.execute(_SQL["put"], row).lastrowid
        if vectors:
            parts = self._database.seal.encrypt(self._database.serde.encode(packed(vectors)))
            self._connection.execute(_SQL["put_vectors"], (number, len(vectors[0]), parts))

    def delete(self, namespace: Namespace, key: str) -> None:
        place = place_of(namespace, key)
        for number, *_ in self._connection.execute(_SQL["id"], place).fetchall() if place is not None else ():
            self._connection.execute(_SQL["delete_vectors"], (number,))
            self._connection.execute(_SQL["delete"], (number,))

    def search(
        self,
        prefix: Namespace,
        *,
        wanted: Vector | None,
        conditions: Mapping[str, Any],
        limit: int,
        offset: int,
        refresh: bool,
    ) -> list[SearchItem]:
        """Return the items under a prefix that meet the conditions, with a query vector the most similar first."""
        if path_of(prefix) is None:
            return []
        found = self._by_update(prefix) if wanted is None else self._by_nearness(prefix, wanted)
        rows = ((self._found(number), score) for number, score in found)
        fitting = ((row, score) for row, score in rows if not conditions or matches(self._value(row), conditions))
        part = cut_page(limit, offset)
        shown = list(itertools.islice(fitting, part.start, part.stop))
        return [self._shown(SearchItem, row, refresh, score=score) for row, score in shown]

    def namespaces(self, prefix: Namespace, suffix: Namespace, max_depth: int | None) -> list[Namespace]:
        """Return the sorted namespaces in use with a prefix and a suffix, cut to a number of labels."""
        if path_of(prefix) is None or path_of(suffix) is None:
            return []
        begins, ends = _pattern(prefix), re.compile(r"(?:\A|(?<=\.))" + _pattern(suffix).pattern + r"\Z")
        rows = self._connection.execute(_SQL["namespaces"], self._range(prefix))
        found = [path for (path,) in rows if begins.match(path) and ends.search(path)]
        return sorted({_namespace_of(path)[:max_depth] for path in found})

    def sweep(self) -> int:
        """Remove the items whose time is over; how many there were."""
        now = {"now": self.now}
        self._connection.execute(_SQL["vectors_over"], now)
        return self._connection.execute(_SQL["delete_over"], now).rowcount

    def _found(self, number: int) -> Any:
        return self._connection.execute(_SQL["found"], {"id": number}).fetchone()

    def _by_update(self, prefix: Namespace) -> Iterator[tuple[int, None]]:
        begins, name = _pattern(prefix), "under" if prefix else "all"
        for number, path in self._connection.execute(_SQL[name], self._range(prefix)):
            if begins.match(path):
                yield number, None

    def _by_nearness(self, prefix: Namespace, wanted: Vector) -> list[tuple[int, float]]:
        """Return the numbers and similarities of items; equally similar ones by their last update, newest first."""
        return sorted(scored(wanted, self._vectors(prefix, len(wanted))), key=lambda one: (-one[1], -one[0]))

    def _vectors(self, prefix: Namespace, wanted: int) -> Iterator[tuple[int, bytes]]:
        begins = _pattern(prefix)
        for number, path, dims, parts in self._connection.execute(_SQL["vectors"], self._range(prefix)):
            if not begins.match(path):
                continue
            if dims != wanted:
                raise InvalidConfig(
                    f"The store's index has vectors of {wanted} numbers, but items in {_namespace_of(path)!r} were put "
                    f"with vectors of {dims}. Put them again, or give the index with which they were put."
                )
            yield number, self._opened(parts)

    def _range(self, prefix: Namespace) -> dict[str, Any]:
        """Between which texts the namespaces under a prefix are, as far as it is not left open."""
        path = "".join(f"{label}." for label in itertools.takewhile(lambda label: label != "*", prefix))
        return {"first": path, "beyond": path.removesuffix(".") + "/" if path else _BEYOND, "now": self.now}

    def _shown(self, kind: type[Any], row: Sequence[Any], refresh: bool, **more: Any) -> Any:
        number, path, key, created_at, updated_at, ttl, _ = row
        if refresh and ttl is not None:
            self.read.append(number)
        with reading("an item"):
            return kind(
                namespace=_namespace_of(path),
                key=key,
                value=self._value(row),
                created_at=instant_of(created_at),
                updated_at=instant_of(updated_at),
                **more,
            )

    def _value(self, row: Sequence[Any]) -> dict[str, Any]:
        return cast("dict[str, Any]", self._opened(row[-1]))

    def _opened(self, stored: bytes) -> Any:
        with reading("an item"):
            return self._database.serde.decode(self._database.seal.decrypt(stored))


def begin_anew(connection: sqlite3.Connection, numbers: Iterable[int], now: int) -> None:
    """Let items that were read live from now on."""
    connection.executemany(_SQL["refresh"], [(now, number) for number in numbers])


def path_of(namespace: Namespace) -> str | None:
    """Return a namespace in stored form; None if it is not valid and cannot exist."""
    labels = cast("tuple[object, ...]", namespace)  # users give anything
    if not all(isinstance(label, str) and "." not in label for label in labels):
        return None
    path = "".join(f"{label}." for label in labels)
    return path if is_unicode(path) else None


def place_of(namespace: Namespace, key: object) -> Place | None:
    """Return where an item is stored; None if its namespace or key cannot be stored."""
    path = path_of(namespace)
    return {"namespace": path, "key": key} if path is not None and isinstance(key, str) and is_unicode(key) else None


def _namespace_of(path: str) -> Namespace:
    return tuple(path.split(".")[:-1])


def _pattern(labels: Namespace) -> re.Pattern[str]:
    """Return the pattern for the beginning of a stored namespace; `"*"` stands for any label."""
    return re.compile("".join(_ANY_LABEL if label == "*" else re.escape(label) + r"\." for label in labels))
