"""Threads, a store and a cache in one SQLite file."""

from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.saver import SqliteSaver

__all__ = ["SqliteDatabase", "SqliteSaver"]
