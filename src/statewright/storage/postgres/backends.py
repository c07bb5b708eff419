"""The saver, the store and the cache for Postgres databases."""

from __future__ import annotations

from typing import Any

from statewright.clock import Clock
from statewright.storage.cache import DatabaseCache
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.postgres.commits import PostgresWriter
from statewright.storage.postgres.database import PostgresDatabase
from statewright.storage.postgres.vectors import open_vectors
from statewright.storage.store.store import DatabaseStore
from statewright.store import Index, TimeToLive


class PostgresSaver(DatabaseSaver[PostgresDatabase]):
    """Saves the checkpoints of threads in a Postgres database. Pass it to `compile(checkpointer=...)`.

    The first argument is a URL, with the options of `PostgresDatabase`, or an open `PostgresDatabase`, which other
    objects can share and which the saver does not close. The saver sees the threads of one `workspace`;
    `for_workspace` returns a saver for another workspace. Each write renews the run's lease on its thread for `lease`,
    by default 60 seconds.
    """

    database_type = PostgresDatabase
    writer_type = PostgresWriter


class PostgresStore(DatabaseStore[PostgresDatabase]):
    """Stores items in a Postgres database. Safe to use from several OS threads and processes.

    The first argument is a URL, with the options of `PostgresDatabase`, or an open database to share. Even if the
    database is encrypted, namespaces and keys are stored unencrypted, because items are looked up by them.

    With an `index`, items are searched by pgvector if the server has this extension and the database is not encrypted:
    exactly, or with `Index(method="hnsw")` approximately. Otherwise vectors are compared in the process.
    """

    database_type = PostgresDatabase

    def __init__(
        self,
        database: PostgresDatabase | str,
        *,
        index: Index | None = None,
        ttl: TimeToLive | None = None,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        super().__init__(database, index=index, ttl=ttl, clock=clock, **options)
        if index is not None:
            try:
                self._vector_search = open_vectors(self.database, index)
            except BaseException:
                self.close()
                raise


class PostgresCache(DatabaseCache[PostgresDatabase]):
    """Stores results of nodes in a Postgres database. Safe to use from several OS threads and processes.

    The first argument is a URL, with the options of `PostgresDatabase`, or an open database to share. If there are more
    than `max_size` results, those that expire soonest are removed first, and then those that never expire, oldest
    first. A result that contains a value of an unknown type is treated as a cache miss.
    """

    database_type = PostgresDatabase
