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


class Bucket(NamedTuple):
    """The division of a time line into periods of equal length, by which records are grouped."""

    column: str
    """The column with the time of a record. Records without one are left out."""
    start: datetime
    """The beginning of period 0. Earlier periods have negative numbers."""
    seconds: float
    """The length of a period."""

    @property
    def microseconds(self) -> int:
        """The length of a period, at least 1."""
        return max(1, round(self.seconds * 1_000_000))


class ExcludedVersion(NamedTuple):
    """A version of a graph whose runs a worker leaves to others."""

    definition_id: str
    queue: str | None = None
    """The queue whose runs are left to others; None for all queues."""

    def matches(self, queue: str, definition_id: str) -> bool:
        """Return whether a run of this queue and version is left to others."""
        return self.definition_id == definition_id and self.queue in (None, queue)


class NextDue(NamedTuple):
    """The next event that a worker waits for when it finds no run to claim."""

    at: datetime | None
    """When the next run is due that may be claimed then, as far as is known; None if there is none. May have passed."""
    has_blocked: bool
    """True if due runs are known that wait for another run to end, or for a place below a limit."""


class QueueSize(NamedTuple):
    """The runs of a queue that have not ended, of all workspaces."""

    queue: str
    due: int
    """The number of due runs that no worker has claimed, including those that wait for a limit or for another run."""
    due_since: datetime | None
    """When the first of them became due; None if there are none."""
    claimed: int
    """The number of claimed runs."""


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
        self,
        kind: type[R],
        by: Sequence[str],
        *,
        where: Where = (),
        sums: Sequence[str] = (),
        bucket: Bucket | None = None,
    ) -> MaybeFuture[Sequence[Group]]:
        """Group the matching records by the values of the columns `by`, and add up the columns `sums` in each group.

        With `bucket`, they are also grouped by its periods, whose numbers are the first values of the keys. The groups
        are sorted by their keys.
        """
        ...

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> MaybeFuture[Sequence[RunEvent]]:
        """Return the events of a run whose numbers are above `after`, the oldest first."""
        ...

    def claim(
        self,
        worker_id: str,
        now: datetime,
        limit: int,
        *,
        queues: Sequence[str] | None = None,
        excluded_versions: Sequence[ExcludedVersion] = (),
    ) -> MaybeFuture[Sequence[Run]]:
        """Claim due runs for a worker: those with the lowest priority number first, then those due longest.

        Only runs of `queues` are claimed; None stands for all. Runs of `excluded_versions` are left to other workers.

        A run is skipped while another one that has not ended precedes it on its thread or in its `sequence`. Claimed
        runs come first there, then those that have begun (are not pending any more), then others in the order in which
        they were written, whatever their ids. A run is also skipped while as many runs with its `concurrency_key` are
        claimed as its `concurrency_limit` allows, as many of its workspace as its `max_running` allows, or as many of
        its queue as the `Queue` of that name allows; and a run that has not begun while the queue has no token left. A
        claimed run has a new `claim`, no `due_at`, and a higher version; its status stays.

        Fewer runs may be claimed than possible, if very many are found that have to wait. Then `next_due` has passed.
        """
        ...

    def next_due(
        self, *, queues: Sequence[str] | None = None, excluded_versions: Sequence[ExcludedVersion] = ()
    ) -> MaybeFuture[NextDue]:
        """Return when the next run is due that a worker with these arguments of `claim` may claim."""
        ...

    def queue_sizes(self, now: datetime) -> MaybeFuture[Sequence[QueueSize]]:
        """Return the sizes of the queues that have runs which have not ended, sorted by name.

        Due and claimed runs are counted. The number of runs that wait or have ended does not matter: there may be
        millions.
        """
        ...
