"""The saver, the store and the cache for SQLite files."""

from __future__ import annotations

from statewright.storage.cache import DatabaseCache
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.store.store import DatabaseStore


class SqliteSaver(DatabaseSaver[SqliteDatabase]):
    """Saves the checkpoints of threads in a SQLite file. Pass it to `compile(checkpointer=...)`.

    The first argument is a path, with the options of `SqliteDatabase`, or an open `SqliteDatabase`, which other objects
    can share and which the saver does not close. The saver sees the threads of one `workspace`; `for_workspace` returns
    a saver for another workspace. Each write renews the run's lease on its thread for `lease`, by default 60 seconds.
    """

    database_type = SqliteDatabase


class SqliteStore(DatabaseStore[SqliteDatabase]):
    """Stores items in a SQLite file. Safe to use from several OS threads and processes.

    The first argument is a path, with the options of `SqliteDatabase`, or an open database to share. Items expire by
    wall-clock time, even while the file is not open. Even if the database is encrypted, namespaces and keys are stored
    unencrypted, because items are looked up by them.
    """

    database_type = SqliteDatabase


class SqliteCache(DatabaseCache[SqliteDatabase]):
    """Stores results of nodes in a SQLite file. Safe to use from several OS threads and processes.

    The first argument is a path, with the options of `SqliteDatabase`, or an open database to share. If there are more
    than `max_size` results, those that expire soonest are removed first, and then those that never expire, oldest
    first. A result that contains a value of an unknown type is treated as a cache miss.
    """

    database_type = SqliteDatabase
