"""The ledger for SQLite, and the migration of its tables."""

from __future__ import annotations

import os
import sqlite3
from itertools import chain
from typing import Any, Final

from statewright.errors import NewerFormat
from statewright.storage.ledger.ledger import DatabaseLedger
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("ledger_formats")
FORMAT: Final = 3
"""The format of the tables that this version writes."""
_STEPS: Final = (
    (_SQL["decided_by_key"], _SQL["format_two"]),
    (_SQL["daily_spending"], _SQL["spending_of_calls"], _SQL["format_three"]),
)
"""The statements of the step from each format to the next, beginning with format 1."""


class SqliteLedger(DatabaseLedger[SqliteDatabase]):
    """Stores the records of runs in a SQLite file; safe to use from several threads and processes.

    In an encrypted database names, ids, times, tags, metadata and keys stay readable, because runs are looked up by
    them. It takes a path with the options of `SqliteDatabase`, or a shared database: jobs of this ledger can be part of
    the commits of a `SqliteSaver` of the same database.
    """

    database_type = SqliteDatabase

    def __init__(self, database: SqliteDatabase | str | os.PathLike[str], **options: Any) -> None:
        super().__init__(database, **options)
        with self.database.read() as connection:
            version = _format(connection)
        if version > FORMAT:
            self.close()
            raise NewerFormat(str(self.database.path), version, FORMAT)
        if version < FORMAT:
            self.database.write(_migrate)


def _format(connection: sqlite3.Connection) -> int:
    return connection.execute(_SQL["format"]).fetchone()[0]


def _migrate(connection: sqlite3.Connection) -> None:
    """Migrate the tables of an older format; another process may have been faster."""
    for statement in chain.from_iterable(_STEPS[_format(connection) - 1 :]):
        connection.execute(statement)
