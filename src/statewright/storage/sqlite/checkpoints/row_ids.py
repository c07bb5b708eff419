"""Where checkpoints are: places, and the paths that lead to them.

A place is the number of a line and the number of a checkpoint in it, as one integer. The parent of a checkpoint is the
one before it in its line, unless `jumps` says otherwise: forks jump. So the way to a checkpoint is a few intervals of
lines, whatever its length.
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
    return line << NUMBER_BITS | number


def line_of(row_id: int) -> int:
    return row_id >> NUMBER_BITS


def number_of(row_id: int) -> int:
    return row_id & LAST_NUMBER


class Interval(NamedTuple):
    """Checkpoints of one line that follow each other."""

    line: int
    first: int
    last: int

    @property
    def row_ids(self) -> tuple[int, int]:
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
    """The number of a line, if it exists."""
    row = connection.execute(_SQL["line"], (workspace, *line)).fetchone()
    return row[0] if row else None


def lines_of(connection: sqlite3.Connection, workspace: str, thread_id: str, namespace: str) -> list[tuple[int, str]]:
    """The lines of a namespace of a thread, with their branches, in the order in which they came to be."""
    return connection.execute(_SQL["lines"], (workspace, thread_id, namespace)).fetchall()


def head_of(connection: sqlite3.Connection, line: int) -> tuple[int, bytes] | None:
    """The place of the newest checkpoint of a line, and the key of its id."""
    return connection.execute(_SQL["head"], (row_id_of(line, 0), row_id_of(line, LAST_NUMBER))).fetchone()


def find_checkpoint(connection: sqlite3.Connection, line: int, checkpoint_id: str) -> int | None:
    """The place of a checkpoint of a line, by its id."""
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
    """Which of the keys it is: what is found may also straddle two of them."""
    found = ids.find(key)
    while found >= 0 and found % 16:
        found = ids.find(key, found + 1)
    return None if found < 0 else found // 16
