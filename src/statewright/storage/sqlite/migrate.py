"""Migration of databases to the current format when they are opened.

The format is the `user_version` of the file; `application_id` marks it as a file of Statewright. Both are 0 in a new
file, which has no tables. Any other file belongs to another program, and is not changed.

In format 1 the name of a thread was unique in the file. Each thread is assigned to the workspace of the runs that
advanced it, or to the default one if there are none. Two runs that began at the same moment could use one name for two
workspaces: such a thread is assigned to the workspace of the first run, and a warning is logged.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from statewright.errors import DamagedDatabase, StorageUnavailable, WrongEncryptionKey
from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.damage import reading
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.data_version import FORMAT, check_format
from statewright.storage.sqlite.statements import run_script, statements

logger = logging.getLogger("statewright.storage")
PAGE: Final = 2048
"""Bytes of a page of a new file. A commit writes whole pages, and small threads fill small ones better."""
_APPLICATION: Final = 0x53_57_72_74
"""`SWrt`, the `application_id` of files of Statewright."""
_ATTEMPTS: Final = 500
_PAUSE: Final = 0.02
"""Seconds between two attempts."""
_KNOWN_TEXT: Final = b"statewright"
"""Stored in encrypted form, to recognise a wrong key."""
_MAX_TABLES: Final = 5
"""Tables of another program that an error lists."""
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"


def prepare(connection: sqlite3.Connection, path: Path, encryptor: Encryptor) -> None:
    """Create the tables of a new file, or migrate an older one.

    Raises NewerFormat, WrongEncryptionKey, or StorageUnavailable for a file of another program, which is not changed.
    """
    header = _read_header(connection)
    _check_is_ours(header, path)
    check_format(connection, path)
    if header.format < FORMAT:
        connection.execute(f"PRAGMA page_size={PAGE}")
        _write_ahead(connection)
        _migrate(connection, encryptor)
    with reading("its key"):
        _check_key(connection, path, encryptor)


class _Header(NamedTuple):
    """The identification of a file."""

    application: int
    format: int
    tables: tuple[str, ...]


def _read_header(connection: sqlite3.Connection) -> _Header:
    connection.execute("BEGIN")  # another process may be creating the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        tables = tuple(name for (name,) in connection.execute(_TABLES))
        return _Header(application, _format(connection), tables)
    finally:
        connection.rollback()


def _check_is_ours(header: _Header, path: Path) -> None:
    """Raise StorageUnavailable for the file of another program, DamagedDatabase for a contradictory one."""
    if header.application == _APPLICATION:
        if header.format < 0 or (header.format == 0 and header.tables):
            raise DamagedDatabase(f"it has format {header.format}, and {_listed(header.tables)}", where=str(path))
    elif header != (0, 0, ()):
        raise StorageUnavailable(
            f"The database {path} cannot be used: it belongs to another program (application_id {header.application}, "
            f"user_version {header.format}, {_listed(header.tables)}). Nothing was changed. Give another path."
        )


def _listed(tables: Sequence[str]) -> str:
    if not tables:
        return "no tables"
    return f"tables {', '.join(tables[:_MAX_TABLES])}{' and others' if len(tables) > _MAX_TABLES else ''}"


def _format(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log, with which readers and writers do not wait for each other."""
    for _ in range(_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_PAUSE)  # another process is switching: SQLite does not wait for it here
        else:
            return
    connection.execute("PRAGMA journal_mode=WAL")


def _migrate(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Apply the missing steps in one transaction; another process may have been faster."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for step in range(_format(connection), FORMAT):
            STEPS[step](connection, encryptor)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _to_1(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Create the tables of format 1."""
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    run_script(connection, "0001_tables")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('key', ?)", (encryptor.encrypt(_KNOWN_TEXT),))


def _to_2(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Rebuild the table of threads with a workspace for each."""
    sql = statements("to_format_2")
    run_script(connection, "0002_tables")
    shared: list[tuple[str, str]] = []
    if connection.execute(sql["has_runs"]).fetchone():
        shared = connection.execute(sql["shared"]).fetchall()
        connection.execute(sql["copy_to_workspaces_of_runs"], (DEFAULT_WORKSPACE,))
        connection.execute(sql["drop_index"])
        connection.execute(sql["create_index"])
    else:
        connection.execute(sql["copy_to_default"], (DEFAULT_WORKSPACE,))
    connection.execute(sql["drop_threads"])
    connection.execute(sql["rename"])
    for thread_id, workspaces in shared:  # all workspaces but the first have lost the thread
        (owner,) = connection.execute(sql["workspace"], (thread_id,)).fetchone()
        logger.warning(
            "Thread %r was advanced by runs of several workspaces (%s). It now belongs to workspace %r, whose run was "
            "the first; in the others its id is free, and their runs on it cannot continue.",
            thread_id,
            workspaces.replace(",", ", "),
            owner,
            extra={"thread_id": thread_id, "workspace_id": owner},
        )


STEPS: tuple[Callable[[sqlite3.Connection, Encryptor], None], ...] = (_to_1, _to_2)
"""The step from each format to the next."""


def _check_key(connection: sqlite3.Connection, path: Path, encryptor: Encryptor) -> None:
    (stored,) = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if encryptor.encrypts and stored == _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The database {path} is not encrypted, and a key was given. Open it without one.")
    if encryptor.decrypt(stored) != _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The key of the database {path} is wrong.")
