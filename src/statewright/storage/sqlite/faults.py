"""What SQLite raises, as errors of Statewright: each fault has one, because different people repair them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from statewright.errors import DamagedDatabase, StorageError, StorageFull, StorageLocked, StorageUnavailable

_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_PRIMARY = 0xFF
"""The lower byte of a result code says what happened; the rest says where."""


def translated(error: BaseException, path: Path) -> StorageError | None:
    """The error of Statewright that a fault of SQLite or of the file system is; None for what is neither."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & _PRIMARY if isinstance(code, int) else None
        if primary == sqlite3.SQLITE_FULL:
            return StorageFull(f"There is no room left for {path}: {error}. Nothing of this write was kept. Make room.")
        if primary in _LOCKED:
            return StorageLocked(
                f"Another process has {path} locked: {error}. Nothing of this write was kept. Try again, or end that "
                f"process."
            )
        if primary in _DAMAGED:
            return DamagedDatabase(str(error), where=str(path))
        return StorageUnavailable(f"The database {path} cannot be used: {error}.")
    if isinstance(error, OSError):
        return StorageUnavailable(f"The database {path} cannot be used: {error}.")
    return None
