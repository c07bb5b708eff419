"""Databases brought to today's format, when they are opened.

The format is in the file's `user_version`; `application_id` marks the file as ours. Both are 0 in a new file, which has
no tables. Everything else that SQLite can read belongs to another program, and is left as it is.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from statewright.errors import DamagedDatabase, StorageUnavailable, WrongEncryptionKey
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.checkpoints.head_cache import FORMAT, check_format
from statewright.storage.sqlite.faults import reading
from statewright.storage.sqlite.from_format_1 import give_threads_to_workspaces
from statewright.storage.sqlite.statements import run_script

PAGE: Final = 2048
"""Bytes of a page of a new file. A commit writes whole pages, and small threads leave less of them empty."""
_APPLICATION: Final = 0x53_57_72_74
"""`SWrt`: marks the file as ours."""
_TRIES: Final = 500
_PAUSE: Final = 0.02
"""Seconds between two tries."""
_KNOWN_TEXT: Final = b"statewright"
_SHOWN: Final = 5
"""How many tables of somebody else are named."""
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"


def prepare(connection: sqlite3.Connection, path: Path, seal: Encryptor) -> None:
    """Make the tables of a new file, bring an older one to today's format.

    Refuses a newer format, a wrong key, and the file of another program, which stays as it is.
    """
    found = _found(connection)
    _check_is_ours(found, path)
    check_format(connection, path)
    if found.format < FORMAT:
        connection.execute(f"PRAGMA page_size={PAGE}")
        _write_ahead(connection)
        _migrate(connection, seal)
    with reading("its key"):
        _check_key(connection, path, seal)


class _Found(NamedTuple):
    """What a file says that it is."""

    application: int
    format: int
    tables: tuple[str, ...]


def _found(connection: sqlite3.Connection) -> _Found:
    connection.execute("BEGIN")  # another process may be about to make the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        tables = tuple(name for (name,) in connection.execute(_TABLES))
        return _Found(application, _format(connection), tables)
    finally:
        connection.rollback()


def _check_is_ours(found: _Found, path: Path) -> None:
    """Raise StorageUnavailable for the file of another program, DamagedDatabase for one that says what can't be."""
    if found.application == _APPLICATION:
        if found.format < 0 or (found.format == 0 and found.tables):
            raise DamagedDatabase(f"it has format {found.format}, and {_listed(found.tables)}", where=str(path))
    elif found != (0, 0, ()):
        raise StorageUnavailable(
            f"The database {path} cannot be used: it belongs to another program (application_id {found.application}, "
            f"user_version {found.format}, {_listed(found.tables)}). Nothing was changed. Give another path."
        )


def _listed(tables: Sequence[str]) -> str:
    if not tables:
        return "no tables"
    return f"tables {', '.join(tables[:_SHOWN])}" + (" and others" if len(tables) > _SHOWN else "")


def _format(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and writers not wait for each other from now on."""
    for _ in range(_TRIES):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_PAUSE)  # another process is at it: SQLite does not wait here by itself
        else:
            return
    connection.execute("PRAGMA journal_mode=WAL")


def _migrate(connection: sqlite3.Connection, seal: Encryptor) -> None:
    """Take the steps that are missing, in one transaction; another process may be at it too."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        found = _format(connection)
        for step in range(found, FORMAT):
            STEPS[step](connection, seal)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _to_1(connection: sqlite3.Connection, seal: Encryptor) -> None:
    """Make the tables of format 1."""
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    run_script(connection, "0001_tables")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('key', ?)", (seal.encrypt(_KNOWN_TEXT),))


def _to_2(connection: sqlite3.Connection, seal: Encryptor) -> None:
    """Give each thread to a workspace."""
    give_threads_to_workspaces(connection)


STEPS: tuple[Callable[[sqlite3.Connection, Encryptor], None], ...] = (_to_1, _to_2)
"""The step from each format to the next."""


def _check_key(connection: sqlite3.Connection, path: Path, seal: Encryptor) -> None:
    (kept,) = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if seal.encrypts and kept == _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The database {path} is not encrypted, and a key was given. Open it without one.")
    if seal.decrypt(kept) != _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The key of the database {path} is another one.")
