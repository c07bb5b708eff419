"""The port of the ledger, which stores runs and everything about them.

The checkpointer stores the state of threads, and the ledger stores the records of the runs that advance the threads. If
both are connected to the same database, they write in one transaction:
`saver.commit(commit, also=[ledger.job(changes)])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from statewright.futures import MaybeFuture
from statewright.runs.change import Change, RunEvent, Where
from statewright.runs.records import Run
from statewright.runs.records.record import R


class Order(NamedTuple):
    """The column by which records are sorted. Records with equal values are sorted by id."""

    column: str
    descending: bool = False


class Group(NamedTuple):
    """A summary of the records that have the same values in some columns."""

    key: tuple[Any, ...]
    """The values of these columns."""
    size: int
    """The number of records."""
    sums: tuple[float, ...]
    """The sums of other columns over the records."""


@runtime_checkable
class Ledger(Protocol):
    """Stores the records of runs, and everything about them.

    Like those of a checkpointer, its methods return a result or a future of it. Callers may change returned records.
    """

    def write(self, changes: Sequence[Change]) -> MaybeFuture[None]:
        """Make changes in order, either all or none. Raises RecordConflict if one conflicts with the stored records."""
        ...

    def job(self, changes: Sequence[Change]) -> Any:
        """Return the changes as a job that a saver of the same database can write with a commit: `also=[job]`."""
        ...

    def get(self, kind: type[R], id: str) -> MaybeFuture[R | None]:  # noqa: A002  # the name of the column
        """Return one record; None if there is none."""
        ...

    def find(
        self,
        kind: type[R],
        where: Where = (),
        *,
        order: Order | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> MaybeFuture[Sequence[R]]:
        """Return the matching records, sorted by id by default."""
        ...

    def count(self, kind: type[R], where: Where = ()) -> MaybeFuture[int]:
        """Return the number of matching records."""
        ...

    def groups(
        self, kind: type[R], by: Sequence[str], *, where: Where = (), sums: Sequence[str] = ()
    ) -> MaybeFuture[Sequence[Group]]:
        """Group the matching records by the values of the columns `by`, and add up the columns `sums` in each group.

        The groups are sorted by their keys.
        """
        ...

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> MaybeFuture[Sequence[RunEvent]]:
        """Return the events of a run whose numbers are above `after`, the oldest first."""
        ...

    def claim(self, worker_id: str, now: datetime, limit: int) -> MaybeFuture[Sequence[Run]]:
        """Claim due runs for a worker, beginning with the runs that have been due longest.

        A run is skipped while an unfinished run is ahead of it in the queue of its thread or in its own `queue`. In a
        queue, claimed runs come first, then runs that have begun (are no longer pending), then all others in the order
        in which they were written, whatever their ids. A run is also skipped while as many runs with the same
        `concurrency_key` are claimed as its `concurrency_limit` allows, or as many runs of its workspace as the
        `max_running` of the workspace allows. A claimed run has a new `claim`, no `due_at`, and a higher version. Its
        status does not change.
        """
        ...
