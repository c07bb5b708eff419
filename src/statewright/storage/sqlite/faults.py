"""Conversion of errors of SQLite to StorageErrors. There is a class for each cause that needs a different remedy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from statewright.errors import DamagedDatabase, StorageError, StorageFull, StorageLocked, StorageUnavailable

_NOT_WRITTEN = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
"""The codes of failed writes. SQLite does not report the cause: it may be a failing disk, a quota, or a limit on the
size of files."""
_LOW_SPACE: Final = 1 << 20
"""The number of free bytes below which a failed write is attributed to a lack of space."""
LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""The primary codes of errors that are caused by other connections, so that it makes sense to try again."""
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def primary_code(error: sqlite3.Error) -> int | None:
    """Return the primary result code of an error, without its details; None if the error is not from SQLite itself."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None  # the higher bits contain the details


def translate_error(error: BaseException, path: Path) -> StorageError | None:
    """Return the StorageError for an error of SQLite or of the file system; None for other exceptions."""
    if isinstance(error, sqlite3.Error):
        code, primary = getattr(error, "sqlite_errorcode", None), primary_code(error)
        if primary == sqlite3.SQLITE_FULL or (code in _NOT_WRITTEN and _is_space_low(path)):
            return StorageFull(f"There is no space left for {path}: {error}. Nothing was written. Free some space.")
        if code in _NOT_WRITTEN:
            return StorageUnavailable(
                f"Writing to {path} failed: {error}. Nothing was written. SQLite does not report whether the disk has "
                f"failed or a quota is exhausted. Check the system log and the quotas."
            )
        if primary in LOCKED:
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


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Convert errors of SQLite and of the file system in the block to StorageErrors."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        storage_error = translate_error(error, path)
        if storage_error is None:
            raise
        raise storage_error from error


def _is_space_low(path: Path) -> bool:
    """Return whether the disk is almost full, or the file has almost the maximum size that this process may write."""
    folder = Path(os.path.abspath(path)).parent
    try:
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _LOW_SPACE or (disk.f_files and not disk.f_favail):
            return True
        files = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
        sizes = [os.path.getsize(file) for file in files if os.path.exists(file)]
    except (OSError, AttributeError):  # the folder does not exist, or the system has no statvfs
        return False
    limit = _max_file_size()
    return limit is not None and max(sizes, default=0) + _LOW_SPACE > limit


def _max_file_size() -> int | None:
    """Return the maximum size in bytes of files that this process may write; None if there is no limit."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


FileIdentity = tuple[int, int] | None
"""The device and the inode of a file; None if there is no file."""


def identity_of(location: str) -> FileIdentity:
    """Return the identity of the file at a path. If the file is replaced, the identity changes."""
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
            f"Restore the file, or open the database again."
        )
