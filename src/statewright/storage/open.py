"""Opening of a database by its location, with the adapter for it, and the views of an open database.

The adapter of Postgres is imported only for a location that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.database import Database
from statewright.storage.locations import PostgresUrl, parse_location

if TYPE_CHECKING:
    from statewright.storage.ledger.ledger import DatabaseLedger
    from statewright.storage.store.store import DatabaseStore

AnyLocation = str | os.PathLike[str] | PostgresUrl


def open_database(location: AnyLocation, **options: Any) -> Database:
    """Open the database at a path or a URL, such as `runs.db` or `postgresql://user@host/name`, and create its tables.

    `options` are those of `SqliteDatabase` or `PostgresDatabase`: both take `key`, `compress` and `serde`. Raises
    InvalidConfig for an invalid location, MissingLibrary if the library for Postgres is not installed, and
    StorageError.
    """
    parsed = _parsed(location)
    if isinstance(parsed, Path):
        from statewright.storage.sqlite import SqliteDatabase

        return SqliteDatabase(parsed, **options)
    from statewright.storage.postgres import PostgresDatabase

    return PostgresDatabase(parsed.url, **_with_parameters(parsed, options))


def open_saver(location: AnyLocation, **options: Any) -> DatabaseSaver[Any]:
    """Open the database at a location, and return a saver of it that closes it. It raises like `open_database`."""
    parsed = _parsed(location)
    if isinstance(parsed, Path):
        from statewright.storage.sqlite import SqliteSaver

        return SqliteSaver(parsed, **options)
    from statewright.storage.postgres import PostgresSaver

    return PostgresSaver(parsed.url, **_with_parameters(parsed, options))


def ledger_of(database: Any) -> DatabaseLedger[Any]:
    """Return the ledger of an open database, and create its tables."""
    if _is_sqlite(database):
        from statewright.storage.sqlite import SqliteLedger

        return SqliteLedger(database)
    from statewright.storage.postgres import PostgresLedger

    return PostgresLedger(database)


def store_of(database: Any, **options: Any) -> DatabaseStore[Any]:
    """Return a store of an open database, and create its tables."""
    if _is_sqlite(database):
        from statewright.storage.sqlite import SqliteStore

        return SqliteStore(database, **options)
    from statewright.storage.postgres import PostgresStore

    return PostgresStore(database, **options)


def has_tables(location: PostgresUrl) -> bool:
    """Return whether the schema of a Postgres database has the tables of Statewright. Nothing is created.

    Raises StorageUnavailable if the server cannot be reached.
    """
    from statewright.storage.postgres import PostgresDatabase

    return PostgresDatabase.is_initialized(location.url, schema=location.schema, prepare=location.prepare)


def schema_versions(location: PostgresUrl) -> tuple[int, int]:
    """Return the version of the schema of a Postgres database, and the one that this version of Statewright uses.

    The former is 0 if there are no tables. Nothing is created. Raises StorageUnavailable if the server cannot be
    reached.
    """
    from statewright.storage.postgres import PostgresDatabase
    from statewright.storage.postgres.migrate import VERSION

    stored = PostgresDatabase.schema_version(location.url, schema=location.schema, prepare=location.prepare)
    return stored, VERSION


def _parsed(location: AnyLocation) -> Path | PostgresUrl:
    return location if isinstance(location, PostgresUrl) else parse_location(location)


def _with_parameters(location: PostgresUrl, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a Postgres database, with those of its URL."""
    parameters = {"schema": location.schema, "prepare": location.prepare, "replica_url": location.replica_url}
    return {**parameters, **options}


def _is_sqlite(database: Database) -> bool:
    from statewright.storage.sqlite import SqliteDatabase

    return isinstance(database, SqliteDatabase)
