"""The saver, the store and the cache for SQLite."""

from __future__ import annotations

from statewright.storage.cache import DatabaseCache
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.store.store import DatabaseStore


class SqliteSaver(DatabaseSaver[SqliteDatabase]):
    """Saves the checkpoints of threads in a database; pass it to `compile(checkpointer=...)`.

    It takes a path, or a `SqliteDatabase` that is shared with other views and is not closed by the saver. It sees the
    threads of one `workspace`; `for_workspace` returns a saver for another one. `lease` is the duration of the lease of
    a run on its thread after each write, 60 seconds by default.
    """

    database_type = SqliteDatabase


class SqliteStore(DatabaseStore[SqliteDatabase]):
    """Stores items in a SQLite file; safe to use from several threads and processes.

    It takes a path with the options of `SqliteDatabase`, or a shared database. Times to live refer to wall-clock time,
    so they pass while the file is not open. In an encrypted database namespaces and keys stay readable, because items
    are looked up by them.
    """

    database_type = SqliteDatabase


class SqliteCache(DatabaseCache[SqliteDatabase]):
    """Stores results in a SQLite file; safe to use from several threads and processes.

    It takes a path with the options of `SqliteDatabase`, or a shared database. Above `max_size`, results that expire
    first are removed first, and then the oldest. A result of an unknown type counts as absent.
    """

    database_type = SqliteDatabase
