"""Lines, and the paths of ancestors through them.

A line contains the checkpoints of one branch of a namespace. The parent of a checkpoint is its predecessor in the line,
unless the table `jumps` names another parent, which is so for forks. The path of ancestors to a checkpoint therefore
consists of only a few intervals of lines, even if it is long.
"""

from __future__ import annotations

from collections.abc import Iterator

from statewright.checkpoint import BranchKey
from statewright.checkpoint.forms import key_of
from statewright.storage.database import Connection, Database
from statewright.storage.row_ids import Interval


class LineReader:
    """Finds lines and checkpoints with a connection, which sees a consistent snapshot of the database."""

    def __init__(self, connection: Connection, database: Database) -> None:
        self.ids = database.row_ids
        self._connection = connection
        self._sql = database.statements("history")

    def path_to(self, row_id: int) -> Iterator[Interval]:
        """Yield the intervals that contain a checkpoint and its ancestors, newest first.

        Raises ValueError if they form a cycle.
        """
        current: int | None = row_id
        visited = set[int]()
        while current is not None:
            line = self.ids.line(current)
            jump = self._connection.execute(self._sql["last_jump"], (self.ids.row_id(line, 0), current)).fetchone()
            if jump:
                if jump[0] in visited:
                    raise ValueError(f"the path to row {row_id} contains a cycle")
                visited.add(jump[0])
            yield Interval(line, self.ids.number(jump[0]) if jump else 0, self.ids.number(current))
            current = jump[1] if jump else None

    def parent_of(self, row_id: int) -> int | None:
        """Return the row id of a checkpoint's parent; None if it has none."""
        jump = self._connection.execute(self._sql["jump"], (row_id,)).fetchone()
        if jump is not None:
            return jump[0]
        return row_id - 1 if self.ids.number(row_id) else None

    def find_line(self, workspace: str, branch_key: BranchKey) -> int | None:
        """Return the number of the line of a branch; None if it does not exist."""
        row = self._connection.execute(self._sql["line"], (workspace, *branch_key)).fetchone()
        return row[0] if row else None

    def lines_of(self, workspace: str, thread_id: str, namespace: str) -> list[tuple[int, str]]:
        """Return the numbers and the branches of the lines of a namespace, in order of creation."""
        return self._connection.execute(self._sql["lines"], (workspace, thread_id, namespace)).fetchall()

    def head_of(self, line: int) -> int | None:
        """Return the row id of the newest checkpoint of a line; None if it has none."""
        row = self._connection.execute(self._sql["head"], self.ids.bounds(line)).fetchone()
        return row[0] if row else None

    def find_head(self, workspace: str, branch_key: BranchKey) -> int | None:
        """Return the row id of the head of a branch; None if the branch does not exist."""
        number = self.find_line(workspace, branch_key)
        return self.head_of(number) if number is not None else None

    def find_checkpoint(self, line: int, checkpoint_id: str) -> int | None:
        """Return the row id of the checkpoint with an id in a line; None if the line does not contain it."""
        key = key_of(checkpoint_id)
        parameters = (*self.ids.bounds(line), key)
        row = self._connection.execute(self._sql["record_by_id"], parameters).fetchone()
        if row:
            return row[0]
        for row_id, first, ids in self._connection.execute(self._sql["segment_by_id"], parameters):
            index = _index_of(ids, key)
            if index is not None:
                return self.ids.row_id(self.ids.line(row_id), first + index)
        return None


def _index_of(ids: bytes, key: bytes) -> int | None:
    """Return the index of a key in a concatenation of keys of 16 bytes; None if it does not contain the key."""
    offset = ids.find(key)
    while offset >= 0 and offset % 16:  # the bytes belong to two adjacent keys, so this is not a match
        offset = ids.find(key, offset + 1)
    return None if offset < 0 else offset // 16
