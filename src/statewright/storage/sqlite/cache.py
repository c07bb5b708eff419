"""Results of nodes in a SQLite file: they outlive the process, and several processes may share them.

Statements of one line are constants here, longer ones are files under `sql/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any, Final

from statewright.cache import CacheKey
from statewright.checkpoint.forms import microseconds
from statewright.clock import Clock, SystemClock
from statewright.errors import SerdeError
from statewright.futures import LightFuture
from statewright.storage.sqlite.faults import reading
from statewright.storage.sqlite.statements import statements
from statewright.storage.sqlite.view import DatabaseOrPath, View

_SQL: Final = statements("cache")

_NEVER: Final = 2**62
"""The smallest expiry, in microseconds, of results that do not expire. They are numbered, the oldest first."""


class SqliteCache(View):
    """Stores results in a SQLite file; safe to use from several threads and processes.

    It takes a path with the options of `SqliteDatabase`, or a shared database. Above `max_size`, results that expire
    first are removed first, and then the oldest. A result of an unknown type counts as absent.
    """

    def __init__(
        self, database: DatabaseOrPath, *, max_size: int | None = None, clock: Clock | None = None, **options: Any
    ) -> None:
        super().__init__(database, **options)
        self._make_tables("cache")
        self._max_size = max_size
        self._clock = clock or SystemClock()

    def get(self, key: CacheKey) -> Any:
        parameters = {"node": key.node, "input": key.input, "now": microseconds(self._clock.now())}
        with self.database.read() as connection:
            row = connection.execute(_SQL["get"], parameters).fetchone()
        if row is None:
            return None
        try:
            with reading("a cached result"):
                return self.database.serde.decode(self.database.seal.decrypt(row[0]))
        except SerdeError:  # the node is executed instead, and its result replaces this one
            return None

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> LightFuture[None]:
        """Store a value, for `ttl` seconds if it is given. Raises SerdeError for one that cannot be stored."""
        stored = self.database.seal.encrypt(self.database.serde.encode(value, f"the result of {key.node}"))
        now = microseconds(self._clock.now())
        until = None if ttl is None else min(now + round(min(ttl * 1_000_000, _NEVER)), _NEVER - 1)
        row = {"node": key.node, "input": key.input, "value": stored, "until": until, "never": _NEVER}

        def store(connection: Connection) -> None:
            connection.execute(_SQL["forget_over"], (now,))
            connection.execute(_SQL["put"], row)
            if self._max_size is not None:
                connection.execute(_SQL["surplus"], {"max_size": self._max_size})

        return self.database.hand_over(store)

    def clear(self, nodes: Sequence[str] | None = None) -> LightFuture[None]:
        def delete(connection: Connection) -> None:
            if nodes is None:
                connection.execute(_SQL["forget_all"])
            else:
                connection.executemany(_SQL["forget_node"], [(node,) for node in nodes])

        return self.database.hand_over(delete)
