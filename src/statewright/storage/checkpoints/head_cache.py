"""Cache of threads, lines, heads and runs, so that a commit need not query the position of its thread.

*The problem.* A commit is conditional on the head, the lease and the epoch of its thread. Reading them takes
several queries for each commit, though the answers rarely change in between.

*The approach.* In a database to which one connection writes, that connection knows the result of its own writes. The
cache is valid until another connection commits, which the adapter has to find out at the beginning of each transaction,
when no other commit can come in between (`refresh`; see `sqlite/data_version.py`). A rollback clears it as well, since
entries may describe rows that were never written.

*Rules.* The cache is used by one transaction at a time. A write by another path than `commits.Writer` must clear the
entries that it invalidates: deleting lines calls `forget_lines`, because row ids may be reused.

*Rejected.* Triggers or version columns, which add a write to each commit; a cache with expiry, which is wrong once a
second process takes over a thread.
"""

from __future__ import annotations

from typing import Any

from statewright.checkpoint.lease import LeasedThread
from statewright.clock import instant_of


class Thread(LeasedThread):
    """A stored thread: its row id and its lease."""

    def __init__(
        self, row_id: int, epoch: int = 0, owner: str | None = None, until: int | None = None, wanted: str | None = None
    ) -> None:
        """Create it from a row, in which `until` is in microseconds since 1970, and has no meaning without an owner."""
        super().__init__(epoch, owner, instant_of(until) if owner is not None and until is not None else None, wanted)
        self.id = row_id


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


class HeadCache:
    """Recently written threads, lines, heads and runs."""

    __slots__ = ("heads", "lines", "runs", "threads")

    def __init__(self) -> None:
        self.threads: dict[tuple[str, str], Thread] = {}
        """Threads by workspace and id."""
        self.lines: dict[tuple[int, str, str], int] = {}
        self.heads: dict[int, Head] = {}
        self.runs: dict[tuple[int, str], tuple[int, int]] = {}
        """The row id of a run and the number of the next event in its log, by thread and run."""

    def refresh(self, connection: Any) -> None:
        """Clear the entries that another connection may have changed; called at the beginning of a transaction."""
        self.forget()

    def forget_lines(self) -> None:
        """Clear lines and heads after a deletion, because row ids may be reused."""
        self.lines, self.heads = {}, {}

    def forget(self) -> None:
        """Clear the cache, after a rollback or after writes that did not update it."""
        self.threads, self.lines, self.heads, self.runs = {}, {}, {}, {}
