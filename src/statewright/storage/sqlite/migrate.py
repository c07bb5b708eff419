"""Migration of files to the current format when they are opened.

The `user_version` of a file is its format, and its `application_id` marks it as a file of Statewright. In a new file
both are 0, and there are no tables. Any other file belongs to another program and is not changed.

In format 1, the id of a thread was unique in the file. The migration to format 2 assigns each thread to the workspace
of the runs that have advanced it, or to the default workspace if there are no runs. If runs of two workspaces started
at the same moment, they could use the same thread. Such a thread is assigned to the workspace of the first run, and a
warning is logged.
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
from statewright.storage.damage import report_damage
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.data_version import FORMAT, check_format
from statewright.storage.sqlite.statements import run_script, statements

logger = logging.getLogger("statewright.storage")
PAGE: Final = 2048
"""The page size of new files in bytes. It is small because a commit writes whole pages, and most commits are small."""
_APPLICATION: Final = 0x53_57_72_74
"""The `application_id` of files of Statewright: `SWrt`."""
_ATTEMPTS: Final = 500
"""The number of attempts to switch to the write-ahead log."""
_PAUSE: Final = 0.02
"""Seconds between two attempts."""
_KNOWN_TEXT: Final = b"statewright"
"""A text that is stored encrypted, so that a wrong key can be recognized."""
_MAX_TABLES: Final = 5
"""The maximum number of another program's tables that an error lists."""
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"


def prepare(connection: sqlite3.Connection, path: Path, encryptor: Encryptor) -> None:
    """Create the tables of a new file, or migrate an older file.

    Raises NewerFormat if a newer version of Statewright has created or migrated the file, WrongEncryptionKey if
    the key of `encryptor` is not that of the file, and StorageUnavailable for a file of another program, which is not
    changed.
    """
    header = _read_header(connection)
    _check_application(header, path)
    check_format(connection, path)
    if header.format < FORMAT:
        connection.execute(f"PRAGMA page_size={PAGE}")
        _enable_write_ahead_log(connection)
        _migrate(connection, encryptor)
    with report_damage("its key"):
        _check_key(connection, path, encryptor)


class _Header(NamedTuple):
    """The identification of a file: the id of the application, the format, and the names of the tables."""

    application: int
    format: int
    tables: tuple[str, ...]


def _read_header(connection: sqlite3.Connection) -> _Header:
    connection.execute("BEGIN")  # read in one transaction, because another process may be creating the tables
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        tables = tuple(name for (name,) in connection.execute(_TABLES))
        return _Header(application, _read_format(connection), tables)
    finally:
        connection.rollback()


def _check_application(header: _Header, path: Path) -> None:
    """Raise StorageUnavailable for a file of another program, and DamagedDatabase for an impossible format."""
    if header.application == _APPLICATION:
        if header.format < 0 or (header.format == 0 and header.tables):
            tables = _describe_tables(header.tables)
            raise DamagedDatabase(f"it has format {header.format}, and {tables}", where=str(path))
    elif header != (0, 0, ()):
        raise StorageUnavailable(
            f"The database {path} cannot be used: it belongs to another program (application_id {header.application}, "
            f"user_version {header.format}, {_describe_tables(header.tables)}). Nothing was changed. Pass another path."
        )


def _describe_tables(tables: Sequence[str]) -> str:
    if not tables:
        return "no tables"
    return f"tables {', '.join(tables[:_MAX_TABLES])}{' and others' if len(tables) > _MAX_TABLES else ''}"


def _read_format(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _enable_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file to a write-ahead log, so that readers and writers do not wait for each other."""
    for _ in range(_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_PAUSE)  # another process is switching the file, and SQLite does not wait for it in this case
        else:
            return
    connection.execute("PRAGMA journal_mode=WAL")


def _migrate(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Apply the missing steps in one transaction, unless another process has already done so."""
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for step in range(_read_format(connection), FORMAT):
            STEPS[step](connection, encryptor)
            connection.execute(f"PRAGMA user_version = {step + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _create_format_1(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Create the tables of format 1."""
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    run_script(connection, "0001_tables")
    connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID")
    connection.execute("INSERT INTO meta VALUES ('key', ?)", (encryptor.encrypt(_KNOWN_TEXT),))


def _migrate_to_format_2(connection: sqlite3.Connection, encryptor: Encryptor) -> None:
    """Rebuild the table of threads with a column for the workspace."""
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
    for thread_id, workspaces in shared:  # all workspaces except the first have lost the thread
        (owner,) = connection.execute(sql["workspace"], (thread_id,)).fetchone()
        logger.warning(
            "Thread %r was advanced by runs of several workspaces (%s). It now belongs to workspace %r, whose run was "
            "the first. In the other workspaces no thread has this id any more, and their runs cannot continue.",
            thread_id,
            workspaces.replace(",", ", "),
            owner,
            extra={"thread_id": thread_id, "workspace_id": owner},
        )


STEPS: tuple[Callable[[sqlite3.Connection, Encryptor], None], ...] = (_create_format_1, _migrate_to_format_2)
"""The functions that migrate a file from each format, beginning with 0, to the next format."""


def _check_key(connection: sqlite3.Connection, path: Path, encryptor: Encryptor) -> None:
    (stored,) = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if encryptor.encrypts and stored == _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The database {path} is not encrypted, and a key was given. Open it without one.")
    if encryptor.decrypt(stored) != _KNOWN_TEXT:
        raise WrongEncryptionKey(f"The key for the database {path} is wrong. Pass the key that it was created with.")
