"""`statewright db migrate`: create the tables of a database, or migrate them to the format of this version, and exit.

Servers and workers do the same when they start. A separate command lets one process do it before a new version is
rolled out, as the owner of the tables, so that servers need no permission to change tables.
"""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from statewright.cli.console.failure import FAILED, NoTables, exit_with
from statewright.cli.console.options import ServerDatabaseOptions
from statewright.cli.console.printing import say
from statewright.cli.db.database import check_is_file, describe_missing_tables, open_or_create_saver
from statewright.cli.db.files import connect_to_read
from statewright.cli.serve.server import resolve_database
from statewright.errors import NewerFormat, StorageUnavailable
from statewright.project import load_project
from statewright.storage.locations import Location, PostgresUrl
from statewright.storage.open import ledger_of, schema_versions, store_of
from statewright.storage.sqlite.data_version import FORMAT

_NO_TABLES: Final = 0
"""The format of a database that does not exist, or is empty."""


def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing, and exit with 1 if the tables are missing or too old.")
    ] = False,
    *,
    database: ServerDatabaseOptions,
) -> None:
    """Create the tables of the database, or migrate them to the format of this version of Statewright.

    On Postgres, run it as the owner of the tables before servers and workers of a new version are started.
    """
    location = resolve_database(load_project(Path.cwd()), database.database)
    stored, current = read_formats(location)
    if stored > current:
        raise NewerFormat(str(location), stored, current)
    if check and stored < current:
        if stored == _NO_TABLES:
            raise NoTables(describe_missing_tables(location, database))
        exit_with(
            f"Error: {location} has format {stored}, and this version of Statewright uses format {current}. "
            f"Run: {shlex.join(['statewright', 'db', 'migrate', *database.args])}",
            FAILED,
        )
    if not check:
        with open_or_create_saver(location, database.key_file) as saver:
            ledger_of(saver.database)
            store_of(saver.database)
    if stored == current:
        say(f"{location} is up to date (format {current}).")
    elif stored == _NO_TABLES:
        say(f"Created the tables of {location} (format {current}).")
    else:
        say(f"Migrated {location} from format {stored} to format {current}.")


def read_formats(location: Location) -> tuple[int, int]:
    """Return the format of a database, and the one that this version of Statewright uses. Nothing is created.

    Raises UsageError for a file of another program, and StorageError if the database cannot be read.
    """
    if isinstance(location, PostgresUrl):
        return schema_versions(location)
    return _format_of_file(location), FORMAT


def _format_of_file(path: Path) -> int:
    if not path.exists() or not path.stat().st_size:
        return _NO_TABLES
    check_is_file(path)
    try:
        with closing(connect_to_read(path)) as connection:
            return connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise StorageUnavailable(f"The database {path} cannot be read: {error}. Nothing was changed.") from error
