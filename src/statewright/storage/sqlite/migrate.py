"""Databases brought to today's format, when they are opened.

The format is in the file's `user_version`, which is 0 in a new file. Format 0 itself was that of prototypes, whose
files have a table `checkpoints`; see `from_format_0`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from statewright.errors import NewerFormat, WrongKey
from statewright.storage.seal import Seal
from statewright.storage.sqlite.statements import run_script

FORMAT: Final = 1
"""The format that this version writes."""
PAGE: Final = 2048
"""Bytes of a page of a new file. A commit writes whole pages, and small threads leave less of them empty."""
_APPLICATION: Final = 0x53_57_72_74
"""`SWrt`: marks the file as ours."""
_TRIES: Final = 500
_PAUSE: Final = 0.02
"""Seconds between two tries."""
_KNOWN_TEXT: Final = b"statewright"


def prepare(connection: sqlite3.Connection, path: Path, seal: Seal) -> None:
    """Make the tables of a new file, bring an older one to today's format, refuse a newer one and a wrong key."""
    found = _format(connection)
    if found > FORMAT:
        raise NewerFormat(str(path), found, FORMAT)
    if found < FORMAT:
        connection.execute(f"PRAGMA page_size={PAGE}")
        _write_ahead(connection)
        _migrate(connection, seal)
    _check_key(connection, path, seal)


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


def _migrate(connection: sqlite3.Connection, seal: Seal) -> None:
    """Take the steps that are missing, in one transaction; another process may be at it too."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for step in range(_format(connection), FORMAT):
            STEPS[step](connection, seal)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _to_1(connection: sqlite3.Connection, seal: Seal) -> None:
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    run_script(connection, "0001_tables")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('key', ?)", (seal.close(_KNOWN_TEXT),))


STEPS: tuple[Callable[[sqlite3.Connection, Seal], None], ...] = (_to_1,)
"""The step from each format to the next."""


def _check_key(connection: sqlite3.Connection, path: Path, seal: Seal) -> None:
    (kept,) = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if seal.encrypts and kept == _KNOWN_TEXT:
        raise WrongKey(f"The database {path} is not encrypted, and a key was given. Open it without one.")
    if seal.open(kept) != _KNOWN_TEXT:
        raise WrongKey(f"The key of the database {path} is another one.")
