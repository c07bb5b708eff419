"""Operations on database files: copying them while they are in use, replacing, renaming and deleting them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from statewright.cli.console.failure import UsageError, report_os_errors
from statewright.storage.sqlite.faults import LOCKED, primary_code, translate_errors

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's companion files. If one is left behind, SQLite applies it to the next database at the same
path."""
_BUSY_TIMEOUT: Final = 10.0
"""Seconds to wait for other processes to finish writing."""


def copy_database_file(source: Path, target: Path) -> None:
    """Copy a database to `target`, replacing its contents, in one transaction. Other processes may use both files.

    Raises a StorageError that names the file at fault: DamagedDatabase if it is not a valid database, StorageFull,
    StorageLocked or StorageUnavailable. Then the contents of `target` are unchanged, but it may be a new, empty file.
    """
    with (
        translate_errors(source),
        closing(connect_to_read(source)) as source_connection,
        # The source has been read, so errors from here on are attributed to the target.
        translate_errors(target),
        closing(sqlite3.connect(target, timeout=_BUSY_TIMEOUT)) as target_connection,
    ):
        source_connection.backup(target_connection)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a connection to an existing database, even in a folder without write permission."""
    uri = path.resolve().as_uri()
    try:
        # `rw`, because with `ro` SQLite could not roll back the -journal file of a process that was killed, and would
        # leave the -wal and -shm files behind that it creates to read a database in WAL mode.
        return _connect(f"{uri}?mode=rw")
    except sqlite3.OperationalError as error:
        is_read_only = primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        # `immutable` reads without locks, and ignores the companion files and the transactions in them.
        if not is_read_only or _has_companion(path, "-wal", "-journal"):
            raise
        return _connect(f"{uri}?mode=ro&immutable=1")


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # SQLite reads the file only for a statement
    except BaseException:
        connection.close()
        raise
    return connection


def check_output_path(target: Path, noun: str, *, force: bool) -> None:
    """Raise UsageError if a file exists at the path and `force` is not set, or if it cannot be a file there.

    `noun` says in the message what is going to be written, e.g. `backup`.
    """
    if target.is_dir():
        raise UsageError(f"{str(target)!r} is a folder. Use the path of a file for the {noun}.")
    if target.exists() and not force:
        raise UsageError(f"File {str(target)!r} already exists. Use another name, or pass --force to replace it.")
    if not target.parent.is_dir():
        raise UsageError(
            f"The folder {str(target.parent)!r} for the {noun} does not exist. Create it, or use another path."
        )


@contextmanager
def temporary_database(path: Path) -> Generator[Path]:
    """Yield the path of a temporary file in the folder of `path`. After the block, delete it if it still exists."""
    temporary_path = path.with_name(f".{path.name}.{os.getpid()}")
    remove_database(temporary_path)  # a killed process with the same id may have left one; in containers ids recur
    try:
        yield temporary_path
    finally:
        remove_database(temporary_path)


@contextmanager
def replace_atomically(target: Path) -> Generator[Path]:
    """Yield the path of a temporary file. After the block, move it to the target; on an error, delete it."""
    with temporary_database(target) as temporary_path:
        yield temporary_path
        replace_database(temporary_path, target)


def replace_database(source: Path, target: Path) -> None:
    """Move a complete database to `target`, where another one may be. Raises UsageError if that one is in use."""
    with report_os_errors(f"{str(target)!r} cannot be written", "Use another path."):
        # The companion files must be deleted first, because SQLite would apply them to the new database. But they may
        # contain committed transactions, and the move may fail. So these are first written to the old database.
        if target.exists() and _has_companion(target, *_COMPANIONS):
            _merge_companions(target)
        remove_companions(target)
        source.replace(target)


def _merge_companions(path: Path) -> None:
    """Write the transactions in the companion files of a database to the database. Raises UsageError if it is in use.

    If the file is not a valid database, nothing is done.
    """
    try:
        has_access = try_exclusive_access(path)
    except sqlite3.OperationalError as error:
        raise UsageError(f"The database {str(path)!r} cannot be replaced: {error}. Use another path.") from error
    except sqlite3.DatabaseError:
        return
    if not has_access:
        raise UsageError(f"The database {str(path)!r} is in use. Stop the processes that use it, or use another path.")


def try_exclusive_access(path: Path) -> bool:
    """Return True if no other connection has a database in WAL mode open, not even one of this process.

    Switches the database to another journal mode and back, which SQLite refuses if there is another connection. If it
    succeeds, all committed transactions are in the file itself, and the companion files are deleted.
    """
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            (restored_mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if primary_code(error) in LOCKED:
                return False
            raise
    return (mode, restored_mode) == ("delete", "wal")  # a refused change may also return the unchanged mode


def remove_database(path: Path) -> None:
    """Delete a database and its companion files."""
    path.unlink(missing_ok=True)
    remove_companions(path)


def remove_companions(path: Path) -> None:
    """Delete the companion files of a database."""
    for suffix in _COMPANIONS:
        _companion(path, suffix).unlink(missing_ok=True)


def rename_damaged(path: Path) -> Path:
    """Rename an unreadable database and its companion files, and return its new path."""
    number = 1
    while (new_path := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    with report_os_errors(f"{str(path)!r} cannot be renamed to {str(new_path)!r}"):
        path.rename(new_path)
        for suffix in _COMPANIONS:
            if _has_companion(path, suffix):
                _companion(path, suffix).rename(_companion(new_path, suffix))
    return new_path


def _has_companion(path: Path, *suffixes: str) -> bool:
    """Return True if a database has a companion file with one of the suffixes."""
    return any(_companion(path, suffix).exists() for suffix in suffixes)


def _companion(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
