"""The cache that stores results of nodes in a database, where they outlive the process and are shared with others."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from statewright.cache import CacheKey
from statewright.clock import Clock, microseconds
from statewright.errors import SerdeError
from statewright.futures import LightFuture
from statewright.storage.damage import report_damage
from statewright.storage.database import Backend, Connection, D

_NEVER: Final = 2**62
"""The times of expiry, in microseconds, of results that never expire are consecutive numbers from here, so that the
oldest of them is the first to be removed if the cache is full."""


class DatabaseCache(Backend[D]):
    """Stores results in a database."""

    def __init__(
        self,
        database: D | str | os.PathLike[str],
        *,
        max_size: int | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(database, **options)
        self.database.create_tables("cache")
        self._sql = self.database.statements("cache")
        self._max_size = max_size
        self._clock = clock or self.clock

    def get(self, key: CacheKey) -> Any:
        parameters = {"node": key.node, "input": key.input, "now": microseconds(self._clock.now())}
        return self._query(lambda connection: self._find(connection, parameters))

    def _find(self, connection: Connection, parameters: Mapping[str, Any]) -> Any:
        row = connection.execute(self._sql["get"], parameters).fetchone()
        if row is None:
            return None
        try:
            with report_damage("a cached result"):
                return self.database.decode(row[0])
        except SerdeError:  # of an unknown type: a cache miss, so that the node is executed and its result replaces it
            return None

    def put(self, key: CacheKey, value: Any, *, ttl: float | None = None) -> LightFuture[None]:
        """Store a value, for `ttl` seconds or until it is removed. Raises SerdeError if the value cannot be stored."""
        stored = self.database.encode(value, f"the result of {key.node}")
        now = microseconds(self._clock.now())
        until = None if ttl is None else min(now + round(min(ttl * 1_000_000, _NEVER)), _NEVER - 1)
        row = {"node": key.node, "input": key.input, "value": stored, "until": until, "never": _NEVER}

        def store(connection: Connection) -> None:
            connection.execute(self._sql["forget_over"], (now,))
            connection.execute(self._sql["put"], row)
            if self._max_size is not None:
                connection.execute(self._sql["surplus"], {"max_size": self._max_size})

        return self.database.submit(store)

    def clear(self, nodes: Sequence[str] | None = None) -> LightFuture[None]:
        def delete(connection: Connection) -> None:
            if nodes is None:
                connection.execute(self._sql["forget_all"])
            else:
                connection.executemany(self._sql["forget_node"], [(node,) for node in nodes])

        return self.database.submit(delete)
