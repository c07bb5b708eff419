"""Validity of cached heads, and the format of the file.

SQLite counts what a cache needs to know: `PRAGMA data_version` changes when a commit of another connection, in this
process or another one, becomes visible. It is compared after `BEGIN IMMEDIATE`, when no other commit can come in
between.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from statewright.errors import NewerFormat
from statewright.storage.checkpoints.head_cache import HeadCache

FORMAT: Final = 2
"""The format that this version writes."""
_MOST: Final = 10_000
"""Lines in the cache above which it is cleared."""


class VersionedHeadCache(HeadCache):
    """A cache that is valid for one version of the data in the file."""

    __slots__ = ("_path", "_version")

    def __init__(self, path: Path = Path()) -> None:
        super().__init__()
        self._path = path
        self._version = -1

    def refresh(self, connection: Any) -> None:
        """Clear the cache if another connection has committed since.

        Raises NewerFormat if a newer version has migrated the file meanwhile.
        """
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self.heads) > _MOST:
            check_format(connection, self._path)
            self.forget()
            self._version = version


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise NewerFormat if the file has a format of a newer version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormat(str(path), version, FORMAT)
