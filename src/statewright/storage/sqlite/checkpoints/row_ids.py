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

NUMBER_BITS: Final = 32
LAST_NUMBER: Final = (1 << NUMBER_BITS) - 1


def place_of(line: int, number: int) -> int:
    return line << NUMBER_BITS | number


def line_of(place: int) -> int:
    return place >> NUMBER_BITS


def number_of(place: int) -> int:
    return place & LAST_NUMBER


class Interval(NamedTuple):
    """Checkpoints of one line that follow each other."""

    line: int
    first: int
    last: int

    @property
    def places(self) -> tuple[int, int]:
        return place_of(self.line, self.first), place_of(self.line, self.last)


def path_to(connection: sqlite3.Connection, place: int) -> Iterator[Interval]:
    """Yield the intervals that lead to a checkpoint, the newest first. Raises ValueError if they form a cycle."""
    current: int | None = place
    visited = set[int]()
    while current is not None:
        line = line_of(current)
        jump = connection.execute(_LAST_JUMP, (place_of(line, 0), current)).fetchone()
        if jump:
            if jump[0] in visited:
                raise ValueError(f"the path to place {place} contains a cycle")
            visited.add(jump[0])
        yield Interval(line, number_of(jump[0]) if jump else 0, number_of(current))
        current = jump[1] if jump else None


_SQL: Final = statements("row_ids")
_LAST_JUMP: Final = _SQL["last_jump"]


def find_line(connection: sqlite3.Connection, workspace: str, line: BranchKey) -> int | None:
    """The number of a line, if it exists."""
    row = connection.execute(_LINE, (workspace, *line)).fetchone()
    return row[0] if row else None


_LINE: Final = _SQL["line"]


def lines_of(connection: sqlite3.Connection, workspace: str, thread_id: str, namespace: str) -> list[tuple[int, str]]:
    """The lines of a namespace of a thread, with their branches, in the order in which they came to be."""
    return connection.execute(_LINES, (workspace, thread_id, namespace)).fetchall()


_LINES: Final = _SQL["lines"]


def head_of(connection: sqlite3.Connection, line: int) -> tuple[int, bytes] | None:
    """The place of the newest checkpoint of a line, and the key of its id."""
    return connection.execute(_HEAD, (place_of(line, 0), place_of(line, LAST_NUMBER))).fetchone()


_HEAD: Final = _SQL["head"]


def find_place(connection: sqlite3.Connection, line: int, checkpoint_id: str) -> int | None:
    """The place of a checkpoint of a line, by its id."""
    wanted = (place_of(line, 0), place_of(line, LAST_NUMBER), key_of(checkpoint_id))
    row = connection.execute(_RECORD_BY_ID, wanted).fetchone()
    if row:
        return row[0]
    for place, first, ids in connection.execute(_SEGMENT_BY_ID, wanted):
        number = _position(ids, wanted[2])
        if number is not None:
            return place_of(line_of(place), first + number)
    return None


_RECORD_BY_ID: Final = _SQL["record_by_id"]
_SEGMENT_BY_ID: Final = _SQL["segment_by_id"]


def _position(ids: bytes, key: bytes) -> int | None:
    """Which of the keys it is: what is found may also straddle two of them."""
    found = ids.find(key)
    while found >= 0 and found % 16:
        found = ids.find(key, found + 1)
    return None if found < 0 else found // 16
