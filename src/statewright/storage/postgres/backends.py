"""The saver, the store, the cache and the ledger for Postgres."""

from __future__ import annotations

from statewright.storage.cache import DatabaseCache
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.ledger.ledger import DatabaseLedger
from statewright.storage.postgres.commits import PostgresWriter
from statewright.storage.postgres.database import PostgresDatabase
from statewright.storage.store.store import DatabaseStore


class PostgresSaver(DatabaseSaver[PostgresDatabase]):
    """Saves the checkpoints of threads in a database; pass it to `compile(checkpointer=...)`.

    It takes a URL, or a `PostgresDatabase` that is shared with other views and is not closed by the saver. It sees the
    threads of one `workspace`; `for_workspace` returns a saver for another one. `lease` is the duration of the lease of
    a run on its thread after each write, 60 seconds by default.
    """

    database_type = PostgresDatabase
    writer_type = PostgresWriter


class PostgresStore(DatabaseStore[PostgresDatabase]):
    """Stores items in a Postgres database; safe to use from several threads and processes.

    It takes a URL with the options of `PostgresDatabase`, or a shared database. In an encrypted database namespaces and
    keys stay readable, because items are looked up by them.
    """

    database_type = PostgresDatabase


class PostgresCache(DatabaseCache[PostgresDatabase]):
    """Stores results in a Postgres database; safe to use from several threads and processes.

    It takes a URL with the options of `PostgresDatabase`, or a shared database. Above `max_size`, results that expire
    first are removed first, and then the oldest. A result of an unknown type counts as absent.
    """

    database_type = PostgresDatabase


class PostgresLedger(DatabaseLedger[PostgresDatabase]):
    """Stores the records of runs in a Postgres database; safe to use from several threads and processes.

    It takes a URL with the options of `PostgresDatabase`, or a shared database: jobs of this ledger can be part of the
    commits of a `PostgresSaver` of the same database. In an encrypted database names, ids, times, tags, metadata and
    keys stay readable, because runs are looked up by them.
    """

    database_type = PostgresDatabase
