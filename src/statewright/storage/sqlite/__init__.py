"""Threads, a store and a cache in one SQLite file."""

from statewright.storage.sqlite.cache import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.saver import SqliteSaver
from statewright.storage.sqlite.store import SqliteStore

__all__ = ["SqliteCache", "SqliteDatabase", "SqliteSaver", "SqliteStore"]
