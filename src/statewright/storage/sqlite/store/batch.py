"""Batches of operations of a store, each in one transaction.

A batch that writes is a job of the database, which also extends the time to live of the items that it reads. A batch
that only reads needs a second transaction for that, and only if it has read items with a time to live.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from statewright.checkpoint.forms import microseconds
from statewright.clock import Clock
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.store.items import Items, restart_ttl
from statewright.store import Index
from statewright.store.vectors import Vector, embedded


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of an operation on items."""

    perform: Callable[[Items, Sequence[Vector]], Any]
    texts: Sequence[str] = ()
    """Texts whose vectors are passed to `perform`."""
    writes: bool = False


class Batch:
    """The operations of a batch.

    Call `embed` first if there are texts, and then `perform` if it writes, otherwise `read` and, if `was_read`,
    `refresh`.
    """

    def __init__(self, database: SqliteDatabase, clock: Clock, index: Index | None, steps: Sequence[Step]) -> None:
        self._database = database
        self._clock = clock
        self._index = index
        self._steps = steps
        self._vectors: list[Sequence[Vector]] = [()] * len(steps)
        self._items: Items | None = None
        self.writes = any(step.writes for step in steps)
        self.texts = [text for step in steps for text in step.texts]

    @property
    def was_read(self) -> bool:
        """True if items were read whose time to live restarts."""
        return self._items is not None and bool(self._items.read)

    def embed(self) -> None:
        """Compute all vectors with one call of the model."""
        assert self._index is not None
        vectors = iter(embedded(self._index, self.texts))
        self._vectors = [list(itertools.islice(vectors, len(step.texts))) for step in self._steps]

    def read(self) -> list[Any]:
        with self._database.read() as connection:
            return self._perform_steps(connection)

    def perform(self, connection: Connection) -> list[Any]:
        results = self._perform_steps(connection)
        self.refresh(connection)
        return results

    def refresh(self, connection: Connection) -> None:
        if self._items is not None:
            restart_ttl(connection, self._items.read, self._items.now)

    def _perform_steps(self, connection: Connection) -> list[Any]:
        self._items = items = Items(self._database, connection, microseconds(self._clock.now()))
        return [step.perform(items, vectors) for step, vectors in zip(self._steps, self._vectors, strict=True)]
