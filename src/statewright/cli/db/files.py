"""Operations on database files: copying them while they are in use, replacing, renaming and deleting them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from statewright.cli.console.failure import UsageError, report_os_errors
from statewright.errors import DamagedDatabase, StorageUnavailable

_COMPANIONS: Final = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's companion files. SQLite would apply a file that was left behind to the next database there."""
_BUSY_TIMEOUT: Final = 10.0
"""The maximum number of seconds for which a copy waits until other processes have finished writing."""


def draft_path(path: Path) -> Path:
    """Return the path of the temporary file, the draft, that this process writes before it replaces a file."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def copy_database(source: Path, target: Path) -> None:
    """Copy a database over another one in a single transaction. Other processes may use the source meanwhile.

    Raises DamagedDatabase if the source or the target is not a valid database, and StorageUnavailable if one of them
    cannot be read or written now. In both cases, nothing is changed.
    """
    try:
        with (
            closing(connect_to_read(source)) as source_connection,
            closing(sqlite3.connect(target, timeout=_BUSY_TIMEOUT)) as target_connection,
        ):
            source_connection.backup(target_connection)
    except sqlite3.DatabaseError as error:
        # The low byte is the primary result code of SQLite.
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamagedDatabase(str(error), where=str(source)) from error
        raise StorageUnavailable(f"{source} cannot be copied to {target}: {error}. Nothing was changed.") from error


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a connection to an existing database, even in a folder without write permission."""
    uri = path.resolve().as_uri()
    # `rw` although nothing is changed: in WAL mode even a reader creates the -shm file, which `ro` would forbid.
    connection = sqlite3.connect(f"{uri}?mode=rw", uri=True, timeout=_BUSY_TIMEOUT)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(path.name + "-wal").exists():  # `immutable` would ignore this file and its transactions
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True)
    except BaseException:
        connection.close()
        raise
    return connection


def check_output_path(target: Path, noun: str, *, force: bool) -> None:
    """Raise UsageError if a file exists at the path, unless `force` is set, or if its folder does not exist.

    `noun` says in the message what is going to be written, e.g. `backup`.
    """
    if target.exists() and not force:
        raise UsageError(f"File {str(target)!r} already exists. Use another name, or pass --force to replace it.")
    if not target.parent.is_dir():
        raise UsageError(
            f"The folder {str(target.parent)!r} for the {noun} does not exist. Create it, or use another path."
        )


@contextmanager
def replace_atomically(target: Path) -> Generator[Path]:
    """Yield the path of a temporary file to write, and move the file over the target; on an error, delete the file."""
    draft = draft_path(target)
    try:
        yield draft
        move_into_place(draft, target)
    except BaseException:
        remove_database(draft)
        raise


def move_into_place(draft: Path, path: Path) -> None:
    """Move a complete database over a file that is not in use."""
    with report_os_errors(f"{str(path)!r} cannot be written", " Use another path."):
        remove_companions(path)
        draft.replace(path)


def remove_database(path: Path) -> None:
    """Delete a database and its companion files."""
    path.unlink(missing_ok=True)
    remove_companions(path)


def remove_companions(path: Path) -> None:
    """Delete the companion files of a database."""
    for suffix in _COMPANIONS:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename an unreadable database with its companion files, and return its new path."""
    number = 1
    while (new_path := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(new_path)
    for suffix in _COMPANIONS:
        companion = path.with_name(path.name + suffix)
        if companion.exists():
            companion.rename(new_path.with_name(new_path.name + suffix))
    return new_path


def is_in_use(path: Path) -> bool:
    """Return True if another process has the database open, which is when SQLite refuses to leave WAL mode."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            (restored_mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return True
            raise
    return (mode, restored_mode) != ("delete", "wal")
