"""The saver, store, cache and ledger for SQLite files.

The ledger is imported on first use, because programs that only run graphs do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statewright.storage.sqlite.backends import SqliteCache, SqliteSaver, SqliteStore
from statewright.storage.sqlite.database import SqliteDatabase

if TYPE_CHECKING:
    from statewright.storage.sqlite.ledger import SqliteLedger

__all__ = ["SqliteCache", "SqliteDatabase", "SqliteLedger", "SqliteSaver", "SqliteStore"]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        if name != "SqliteLedger":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from statewright.storage.sqlite.ledger import SqliteLedger

        return SqliteLedger
