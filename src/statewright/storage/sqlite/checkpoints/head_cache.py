"""Cache of threads, lines, heads and runs, so that a commit need not query the position of its thread.

*The problem.* A commit is conditional on the head, the lease and the epoch of its thread. Reading them takes
several queries for each commit, though the answers rarely change in between.

*The approach.* One connection writes, so it knows the result of its own writes. The cache is valid until another
connection commits, and SQLite counts exactly that: `PRAGMA data_version` changes when a commit of another connection,
in this process or another one, becomes visible. `refresh` compares it at the beginning of each transaction, after
`BEGIN IMMEDIATE`, when no other commit can come in between, and clears the cache if it has changed. A rollback clears
it as well (`SqliteDatabase._undo`), since entries may describe rows that were never written.

*Rules.* The cache is used under the lock of the writer alone, and only in transactions. A write by another path than
`commits.Writer` must clear the entries that it invalidates: deleting lines calls `forget_lines`, because SQLite reuses
row ids.

*Rejected.* Triggers or version columns, which add a write to each commit; a cache with expiry, which is wrong once a
second process takes over a thread.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, NamedTuple

from statewright.checkpoint import Lease
from statewright.checkpoint.forms import instant_of
from statewright.errors import NewerFormat

FORMAT: Final = 2
"""The format that this version writes."""
_MOST: Final = 10_000
"""Lines in the cache above which it is cleared."""


class Thread(NamedTuple):
    """A stored thread: its row id and its lease."""

    id: int
    epoch: int
    owner: str | None
    until: int | None
    """In microseconds since 1970."""
    wanted: str | None

    @property
    def lease(self) -> Lease | None:
        """The lease, if the thread has a holder."""
        if self.owner is None or self.until is None:
            return None
        return Lease(self.owner, self.epoch, instant_of(self.until), self.wanted)


class Head:
    """The newest checkpoint of a line, and the size of its records."""

    __slots__ = ("count", "has_entries", "key", "row_id", "size")

    def __init__(self, row_id: int, key: bytes, count: int, size: int) -> None:
        self.row_id = row_id
        self.key = key
        """The stored form of its id."""
        self.count = count
        """The number of records of the line, without segments."""
        self.size = size
        """Their size in bytes."""
        self.has_entries = True
        """True if results may be stored for its frontier, or if that is not certain."""


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise NewerFormat if the file has a format of a newer version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > FORMAT:
        raise NewerFormat(str(path), version, FORMAT)


class HeadCache:
    """Recently written threads, lines, heads and runs."""

    __slots__ = ("_path", "_version", "heads", "lines", "runs", "threads")

    def __init__(self, path: Path = Path()) -> None:
        self._path = path
        self._version = -1
        self.threads: dict[tuple[str, str], Thread] = {}
        """Threads by workspace and id."""
        self.lines: dict[tuple[int, str, str], int] = {}
        self.heads: dict[int, Head] = {}
        self.runs: dict[tuple[int, str], tuple[int, int]] = {}
        """The row id of a run and the number of the next event in its log, by thread and run."""

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Clear the cache if another connection has committed since; called at the beginning of a transaction.

        Raises NewerFormat if a newer version has migrated the file meanwhile.
        """
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self.heads) > _MOST:
            check_format(connection, self._path)
            self.forget()
            self._version = version

    def forget_lines(self) -> None:
        """Clear lines and heads after a deletion, because SQLite reuses row ids."""
        self.lines, self.heads = {}, {}

    def forget(self) -> None:
        """Clear the cache, after a rollback or after writes that did not update it."""
        self.threads, self.lines, self.heads, self.runs = {}, {}, {}, {}
