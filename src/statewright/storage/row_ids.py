"""Row ids of checkpoints, and of the logs of runs.

A row id (the column `place`) is the number of a line and the number of a checkpoint in it, as one integer; or the
number of a run, and of an event in its log. So the rows of a line are an interval.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Interval(NamedTuple):
    """Consecutive checkpoints of one line."""

    line: int
    first: int
    last: int


class RowIds:
    """The division of a row id into the number of a line and the number of a checkpoint in it.

    The same holds for the logs of runs: a row id is the number of a run and the number of an event.
    """

    def __init__(self, *, number_bits: int) -> None:
        """Leave `number_bits` of 63 for the number in a line. The others are for the number of the line."""
        self._bits = number_bits
        self.last_number: Final = (1 << number_bits) - 1
        """The largest number in a line."""
        self.last_line: Final = (1 << 63 - number_bits) - 1
        """The largest number of a line."""

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
