"""Errors of SQLite as errors of Statewright: one for each kind of fault, because their remedies differ."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from statewright.errors import DamagedDatabase, StorageError, StorageFull, StorageLocked, StorageUnavailable

_NOT_WRITTEN = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""A failed write. SQLite does not report the cause: a quota or a limit of file sizes looks like a failing disk."""
_LITTLE: Final = 1 << 20
"""Free bytes below which a failed write is attributed to lack of space."""
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_PRIMARY = 0xFF
"""Mask of the primary result code; the upper bits are details."""


def translate_error(error: BaseException, path: Path) -> StorageError | None:
    """Return the error of Statewright for one of SQLite or the file system; None for other exceptions."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & _PRIMARY if isinstance(code, int) else None
        if primary == sqlite3.SQLITE_FULL or (code in _NOT_WRITTEN and _is_short_of_room(path)):
            return StorageFull(f"There is no room left for {path}: {error}. Nothing was written. Make room.")
        if code in _NOT_WRITTEN:
            return StorageUnavailable(
                f"Writing to {path} failed: {error}. Nothing was written. SQLite does not say whether the disk has "
                f"failed or a quota is used up: look into the log of the system, and at quotas."
            )
        if primary in _LOCKED:
            return StorageLocked(
                f"Another process has {path} locked: {error}. Nothing was written. Try again, or end that process."
            )
        if primary in _DAMAGED or "malformed JSON" in str(error):  # statements parse only stored JSON
            return DamagedDatabase(str(error), where=str(path))
        if primary == sqlite3.SQLITE_READONLY:
            return StorageUnavailable(
                f"The database {path} cannot be written to: {error}. Nothing was written. Give this user permission to "
                f"write to the file and to its folder."
            )
        return StorageUnavailable(f"The database {path} cannot be used: {error}.")
    if isinstance(error, OSError):
        return StorageUnavailable(f"The database {path} cannot be used: {error}.")
    return None


def _is_short_of_room(path: Path) -> bool:
    """Return whether the disk is full, or the file has the maximal size for this process."""
    folder = Path(os.path.abspath(path)).parent
    try:
        room = os.statvfs(folder)
        if room.f_bavail * room.f_frsize < _LITTLE or (room.f_files and not room.f_favail):
            return True
        files = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        sizes = [os.path.getsize(file) for file in files if os.path.exists(file)]
    except (OSError, AttributeError):  # the folder is gone, or a system without statvfs
        return False
    limit = _largest_file()
    return limit is not None and max(sizes, default=0) + _LITTLE > limit


def _largest_file() -> int | None:
    """Return the maximal size of files for this process in bytes; None without a limit."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


FileIdentity = tuple[int, int] | None
"""The device and the inode of a file; None if there is no file."""


def identity_of(location: str) -> FileIdentity:
    """Return the identity of the file at a path, which differs from that of a replacement."""
    try:
        status = os.stat(location)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def check_in_place(location: str, expected: FileIdentity) -> None:
    """Raise StorageUnavailable if a file was removed or replaced.

    SQLite would continue with the open file, and its writes would be lost.
    """
    if identity_of(location) != expected:
        raise StorageUnavailable(
            f"The database {location} was removed or replaced while it was open. Nothing was written. "
            f"Put the file back in its place, or open the database again."
        )
