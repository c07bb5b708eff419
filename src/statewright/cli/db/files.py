"""Databases as files: copied while others write, put in the place of others, removed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from statewright.cli.console.failure import WrongUse
from statewright.errors import DamagedDatabase, StorageUnavailable

_BESIDE: Final = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database; it would be taken for a part of another one in the same place."""
_PATIENCE: Final = 10.0
"""Seconds for which a copy waits for other processes that write."""


def draft_beside(path: Path) -> Path:
    """Where to write what will take the place of a file."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def copy_database(source: Path, target: Path) -> None:
    """Make one database what another one is now, in one transaction; others may go on writing to the source.

    Raises DamagedDatabase if what is read, or what would be written over, is no database; StorageUnavailable if
    something can't be read or written now. Nothing is changed then.
    """
    try:
        with (
            closing(connect_to_read(source)) as read,
            closing(sqlite3.connect(target, timeout=_PATIENCE)) as written,
        ):
            read.backup(written)
    except sqlite3.DatabaseError as error:
        damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
        if damaged:
            raise DamagedDatabase(str(error), where=str(source)) from error
        raise StorageUnavailable(f"{source} cannot be copied to {target}: {error}. Nothing was changed.") from error


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection to a database that exists, even where nothing may be written beside it."""
    uri = path.resolve().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=rw", uri=True, timeout=_PATIENCE)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(path.name + "-wal").exists():  # then what is in the file is not all
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True)
    except BaseException:
        connection.close()
        raise
    return connection


def put_in_place(draft: Path, path: Path) -> None:
    """Let a finished database take the place of a file that nobody uses."""
    try:
        remove_beside(path)
        draft.replace(path)
    except OSError as error:
        raise WrongUse(f"{str(path)!r} cannot be written: {error.strerror}. Give another path.") from error


def remove_database(path: Path) -> None:
    """Remove a database with what is beside it."""
    path.unlink(missing_ok=True)
    remove_beside(path)


def remove_beside(path: Path) -> None:
    """Remove what SQLite has kept beside a database."""
    for suffix in _BESIDE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def set_aside(path: Path) -> Path:
    """Rename a database that can't be read, with what is beside it; its new path."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for suffix in _BESIDE:
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.rename(aside.with_name(aside.name + suffix))
    return aside


def is_in_use(path: Path) -> bool:
    """Whether somebody else has the database open. It is found out by asking for what only the last user gets."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
            (again,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return True
            raise
    return (mode, again) != ("delete", "wal")
