"""What the writer knows of a database without asking it.

It holds as long as nobody else writes to the file, which SQLite tells by a number; so of many commits that follow each
other only the first has to look where its thread stands. Used under the lock of the writer alone.
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
"""How many lines are remembered."""


class Thread(NamedTuple):
    """A thread as it is stored: its number, and who holds it."""

    id: int
    epoch: int
    owner: str | None
    until: int | None
    """In microseconds since 1970."""
    wanted: str | None

    @property
    def lease(self) -> Lease | None:
        if self.owner is None or self.until is None:
            return None
        return Lease(self.owner, self.epoch, instant_of(self.until), self.wanted)


class Head:
    """The newest checkpoint of a line, and what lies before it."""

    __slots__ = ("count", "has_entries", "key", "place", "size")

    def __init__(self, place: int, key: bytes, count: int, size: int) -> None:
        self.place = place
        self.key = key
        """The key of its id."""
        self.count = count
        """How many records the line has."""
        self.size = size
        """Of how many bytes."""
        self.has_entries = True
        """Whether anything may be stored about its frontier."""


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise NewerFormat if the file has a format that this version does not know."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise NewerFormat(str(path), found, FORMAT)


class Known:
    """Threads, lines and runs that were written to lately."""

    __slots__ = ("_path", "_version", "heads", "lines", "runs", "threads")

    def __init__(self, path: Path = Path()) -> None:
        self._path = path
        self._version = -1
        self.threads: dict[tuple[str, str], Thread] = {}
        """By workspace and id."""
        self.lines: dict[tuple[int, str, str], int] = {}
        self.heads: dict[int, Head] = {}
        self.runs: dict[tuple[int, str], tuple[int, int]] = {}
        """The number of a run, and of the next event in its log."""

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Forget everything if another connection has written since; called when a transaction begins.

        Raises NewerFormat if a newer version has migrated the file meanwhile.
        """
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self.heads) > _MOST:
            check_format(connection, self._path)
            self.forget()
            self._version = version

    def forget_lines(self) -> None:
        """Know no lines: some are gone, and SQLite gives their numbers to others."""
        self.lines, self.heads = {}, {}

    def forget(self) -> None:
        """Know nothing: what was written is not so, or was written by other ways."""
        self.threads, self.lines, self.heads, self.runs = {}, {}, {}, {}
