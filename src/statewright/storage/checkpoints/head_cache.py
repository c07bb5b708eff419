"""Cache of threads, lines, heads and runs, so that a commit need not read them from the database.

*The problem.* A commit is made only if the head, the lease and the epoch of its thread are as expected. Reading these
takes several queries for each commit, although only the commits themselves usually change them.

*The approach.* If only one connection of a process writes to the database, it knows what it has written. The cache is
therefore valid until another connection commits. The adapter finds this out at the beginning of each transaction, when
no other connection can commit (`refresh`; see `sqlite/data_version.py`). A rollback also clears the cache, because
entries may describe rows that were never written.

*Rules.* Only one transaction at a time uses the cache. Code that writes to these tables without `commits.Writer` must
clear the entries that become invalid. Code that deletes lines calls `forget_lines`, because row ids may be reused.

*Rejected.* Triggers or version columns: they would add a write to each commit. A cache whose entries expire: it would
be wrong as soon as another process took over a thread.
"""

from __future__ import annotations

from typing import Any

from statewright.checkpoint.lease import LeasedThread
from statewright.clock import instant_of


class StoredThread(LeasedThread):
    """A stored thread: its row id and its lease."""

    def __init__(
        self, row_id: int, epoch: int = 0, owner: str | None = None, until: int | None = None, wanted: str | None = None
    ) -> None:
        """Create a thread from a row. `until` is in microseconds since 1970, and is ignored if there is no owner."""
        super().__init__(epoch, owner, instant_of(until) if owner is not None and until is not None else None, wanted)
        self.id = row_id


class Head:
    """The newest checkpoint of a line, and the number and the size of the line's records."""

    __slots__ = ("count", "has_entries", "key", "row_id", "size")

    def __init__(self, row_id: int, key: bytes, count: int, size: int) -> None:
        self.row_id = row_id
        self.key = key
        """The key of the checkpoint (`checkpoint.forms.key_of`)."""
        self.count = count
        """The number of records in the line, without the checkpoints in segments."""
        self.size = size
        """The total size of these records in bytes."""
        self.has_entries = True
        """False if it is certain that no results of tasks in the frontier of the checkpoint are stored."""


class HeadCache:
    """Recently written threads, lines, heads and runs."""

    __slots__ = ("heads", "lines", "runs", "threads")

    def __init__(self) -> None:
        self.threads: dict[tuple[str, str], StoredThread] = {}
        """Threads, by workspace and thread id."""
        self.lines: dict[tuple[int, str, str], int] = {}
        """The numbers of lines, by the number of the thread, the namespace and the branch."""
        self.heads: dict[int, Head] = {}
        """Heads, by the number of the line."""
        self.runs: dict[tuple[int, str], tuple[int, int]] = {}
        """The number of each run and the number of the next event in its log, by thread number and run id."""

    def refresh(self, connection: Any) -> None:
        """Clear entries that other connections may have changed. Called at the beginning of each transaction."""
        self.forget()

    def forget_lines(self) -> None:
        """Clear lines and heads after lines were deleted, because their row ids may be reused."""
        self.lines, self.heads = {}, {}

    def forget(self) -> None:
        """Clear the cache after a rollback, or after writes that did not update it."""
        self.threads, self.lines, self.heads, self.runs = {}, {}, {}, {}
