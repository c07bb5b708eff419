"""The check whether cached heads are still valid, and the check of a file's format.

The value of `PRAGMA data_version` changes when a commit of another connection, in this process or in another, becomes
visible. It is compared after `BEGIN IMMEDIATE`, when no other connection can commit.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from statewright.errors import NewerFormat
from statewright.storage.checkpoints.head_cache import HeadCache

FORMAT: Final = 2
"""The format of files that this version of Statewright writes."""
_MAX_HEADS: Final = 10_000
"""The maximum number of heads in the cache; if there are more, it is cleared."""


class VersionedHeadCache(HeadCache):
    """A cache of heads that is cleared when another connection has changed the file."""

    __slots__ = ("_path", "_version")

    def __init__(self, path: Path = Path()) -> None:
        super().__init__()
        self._path = path
        self._version = -1

    def refresh(self, connection: Any) -> None:
        """Clear the cache if another connection has committed since the last call.

        Raises NewerFormat if a newer version of Statewright has migrated the file in the meantime.
        """
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self.heads) > _MAX_HEADS:
            check_format(connection, self._path)
            self.forget()
            self._version = version


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise NewerFormat if a newer version of Statewright has created or migrated the file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormat(str(path), version, FORMAT)
