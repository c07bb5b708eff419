"""The row ids of checkpoints and of the event logs of runs.

The row id of a checkpoint (the column `place`) combines the number of its line (a branch of a namespace of a thread)
and its number in the line in one integer. The row ids of a line are therefore an interval. In the same way, a row of an
event log has an id that combines the number of the run and the number of an event.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Interval(NamedTuple):
    """Consecutive checkpoints of one line, from the number `first` to the number `last`, which is included."""

    line: int
    first: int
    last: int


class RowIds:
    """Combines the number of a line and the number of a checkpoint in the line in a row id, and splits row ids.

    For event logs, the numbers are those of a run and of an event.
    """

    def __init__(self, *, number_bits: int) -> None:
        """The lowest `number_bits` of the 63 bits of a row id are the number in the line; the others are the line."""
        self._bits = number_bits
        self.last_number: Final = (1 << number_bits) - 1
        """The largest possible number in a line."""
        self.last_line: Final = (1 << 63 - number_bits) - 1
        """The largest possible number of a line."""

    def fill_in(self, sql: str) -> str:
        """Return a statement in which numbers have replaced NUMBER_BITS and LAST_NUMBER."""
        return sql.replace("NUMBER_BITS", str(self._bits)).replace("LAST_NUMBER", str(self.last_number))

    def row_id(self, line: int, number: int) -> int:
        """Return the row id of a checkpoint."""
        return line << self._bits | number

    def line(self, row_id: int) -> int:
        """Return the number of the line of a checkpoint."""
        return row_id >> self._bits

    def number(self, row_id: int) -> int:
        """Return the number of a checkpoint in its line."""
        return row_id & self.last_number

    def bounds(self, line: int) -> tuple[int, int]:
        """Return the first and the last possible row id of a line."""
        return line << self._bits, line << self._bits | self.last_number

    def ends(self, interval: Interval) -> tuple[int, int]:
        """Return the first and the last row id of an interval."""
        return self.row_id(interval.line, interval.first), self.row_id(interval.line, interval.last)
