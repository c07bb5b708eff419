"""Row ids of checkpoints, and the paths of ancestors.

A row id (the column `place`) is the number of a line and the number of a checkpoint in it, as one integer. The parent
of a checkpoint is its predecessor in the line, unless the table `jumps` has another one, for a fork. So the path to a
checkpoint consists of a few intervals of lines, whatever its length.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

from statewright.checkpoint import BranchKey
from statewright.checkpoint.forms import key_of
from statewright.storage.sqlite.statements import statements

_SQL: Final = statements("row_ids")

NUMBER_BITS: Final = 32
LAST_NUMBER: Final = (1 << NUMBER_BITS) - 1


def row_id_of(line: int, number: int) -> int:
    """Return the row id of a checkpoint."""
    return line << NUMBER_BITS | number


def line_of(row_id: int) -> int:
    """Return the number of the line of a checkpoint."""
    return row_id >> NUMBER_BITS


def number_of(row_id: int) -> int:
    """Return the number of a checkpoint in its line."""
    return row_id & LAST_NUMBER


class Interval(NamedTuple):
    """Consecutive checkpoints of one line."""

    line: int
    first: int
    last: int

    @property
    def row_ids(self) -> tuple[int, int]:
        """The first and the last row id."""
        return row_id_of(self.line, self.first), row_id_of(self.line, self.last)


def path_to(connection: sqlite3.Connection, row_id: int) -> Iterator[Interval]:
    """Yield the intervals that lead to a checkpoint, the newest first. Raises ValueError if they form a cycle."""
    current: int | None = row_id
    visited = set[int]()
    while current is not None:
        line = line_of(current)
        jump = connection.execute(_SQL["last_jump"], (row_id_of(line, 0), current)).fetchone()
        if jump:
            if jump[0] in visited:
                raise ValueError(f"the path to place {row_id} contains a cycle")
            visited.add(jump[0])
        yield Interval(line, number_of(jump[0]) if jump else 0, number_of(current))
        current = jump[1] if jump else None


def find_line(connection: sqlite3.Connection, workspace: str, line: BranchKey) -> int | None:
    """Return the number of a line, if it exists."""
    row = connection.execute(_SQL["line"], (workspace, *line)).fetchone()
    return row[0] if row else None


def lines_of(connection: sqlite3.Connection, workspace: str, thread_id: str, namespace: str) -> list[tuple[int, str]]:
    """Return the lines of a namespace of a thread with their branches, in order of creation."""
    return connection.execute(_SQL["lines"], (workspace, thread_id, namespace)).fetchall()


def head_of(connection: sqlite3.Connection, line: int) -> tuple[int, bytes] | None:
    """Return the row id of the newest checkpoint of a line, and the key of its id."""
    return connection.execute(_SQL["head"], (row_id_of(line, 0), row_id_of(line, LAST_NUMBER))).fetchone()


def find_checkpoint(connection: sqlite3.Connection, line: int, checkpoint_id: str) -> int | None:
    """Return the row id of a checkpoint of a line by its id."""
    wanted = (row_id_of(line, 0), row_id_of(line, LAST_NUMBER), key_of(checkpoint_id))
    row = connection.execute(_SQL["record_by_id"], wanted).fetchone()
    if row:
        return row[0]
    for row_id, first, ids in connection.execute(_SQL["segment_by_id"], wanted):
        number = _position(ids, wanted[2])
        if number is not None:
            return row_id_of(line_of(row_id), first + number)
    return None


def _position(ids: bytes, key: bytes) -> int | None:
    """Return the index of a key in concatenated keys of 16 bytes; a match may also straddle two of them."""
    offset = ids.find(key)
    while offset >= 0 and offset % 16:
        offset = ids.find(key, offset + 1)
    return None if offset < 0 else offset // 16
