"""The port of savers, which store the checkpoints of threads.

A method returns either its result or a future of the result (`futures.MaybeFuture`). The sync driver blocks until the
future is done, and the async driver awaits it. A saver therefore serves both drivers with one set of methods.

The writes of one saver object take effect in the order in which its methods were called, even if their futures are not
awaited in between: a run may be dropped while a write is under way, and its thread is released after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from statewright.checkpoint.lease import Lease, LeaseRequest
from statewright.checkpoint.model import BranchKey, Commit, Pending, SavedCheckpoint
from statewright.errors import InvalidConfig
from statewright.events import Event, Log
from statewright.futures import MaybeFuture
from statewright.ids import CheckpointId, checked_name


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunePolicy:
    """Which checkpoints to keep. The policy applies to each branch of each namespace separately.

    If both criteria are set, a checkpoint is kept if it meets one of them. The head of a branch is always kept, with
    its questions and results, and so is all data that the remaining checkpoints need. Raises InvalidConfig if no
    criterion is set, if `keep_last` is less than 1, or if `keep_since` has no time zone.
    """

    keep_last: int | None = None
    """The number of newest checkpoints to keep."""
    keep_since: datetime | None = None
    """Keep checkpoints that were created at this time or later."""

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_since is None:
            raise InvalidConfig("PrunePolicy() has no criterion. Pass keep_last= or keep_since=.")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise InvalidConfig(
                f"keep_last is {self.keep_last!r}. Pass an integer of at least 1, because the head is always kept."
            )
        if self.keep_since is not None and self.keep_since.tzinfo is None:
            raise InvalidConfig(f"keep_since={self.keep_since!r} has no time zone. Pass a datetime with a time zone.")

    def count_kept(self, created_at: Sequence[datetime]) -> int:
        """Return how many checkpoints of a branch are kept. `created_at` are their times, newest first."""
        count = self.keep_last or 1
        if self.keep_since is not None:
            count_since = next((index for index, at in enumerate(created_at) if at < self.keep_since), len(created_at))
            count = max(count, count_since)
        return min(count, len(created_at))


class Pruned(NamedTuple):
    """The numbers of checkpoints and threads from which they were deleted, or would be deleted without `dry_run`."""

    threads: int
    checkpoints: int


class ThreadEntry(NamedTuple):
    """An entry in a list of threads."""

    thread_id: str
    changed_at: datetime
    """The time at which a run last claimed or released the thread."""
    owner: str | None
    """The owner name of the run that holds the thread, even if its lease has expired; None if no run holds it."""


@runtime_checkable
class Checkpointer(Protocol):
    """Stores the checkpoints of threads."""

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> MaybeFuture[SavedCheckpoint | None]:
        """Return the head of a branch; with `checkpoint_id`, the checkpoint with this id, which may be on any branch.

        Return None if it does not exist.
        """
        ...

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes to be saved and read. Graphs call this for the types in their schemas."""
        ...

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        """Save the checkpoint after a superstep and make it the head of its branch, atomically.

        `also` are prepared writes of other components that use the same database, such as a ledger. They are made in
        the same transaction. Raises CheckpointConflict if the head of the branch is not the expected one or the thread
        has changed since it was loaded, ThreadBusy or LeaseLost as in `save_results`, and SerdeError for a value that
        cannot be stored. If an error is raised, nothing is saved.
        """
        ...

    def save_results(
        self,
        branch_key: BranchKey,
        checkpoint_id: CheckpointId,
        pending: Pending,
        *,
        hold: LeaseRequest | None = None,
        log: Log | None = None,
        also: Sequence[Any] = (),
    ) -> MaybeFuture[None]:
        """Add results of tasks in the frontier of a checkpoint, and entries to the event log of a run.

        `also` is as in `commit`. Raises ThreadBusy if `hold` claims a thread that another run holds, LeaseLost if the
        run of `hold` no longer holds the thread, CheckpointConflict if `hold` claims a thread that has changed since it
        was loaded (see `is_claim_outdated`), and CheckpointNotFound if there is no such checkpoint. If an error is
        raised, nothing is saved.
        """
        ...

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> MaybeFuture[Sequence[Event]]:
        """Return the event log of a thread, run by run, in the order in which the runs started.

        With `run_id`, return only the events of this run whose numbers are greater than `after`.
        """
        ...

    def renew(self, thread_id: str, hold: LeaseRequest) -> MaybeFuture[Lease | None]:
        """Claim a thread, extend the lease on it, or release it, and return the lease.

        Raises ThreadBusy, LeaseLost and CheckpointConflict as `commit` does.
        """
        ...

    def lease(self, thread_id: str) -> MaybeFuture[Lease | None]:
        """Return the lease on a thread, which may have expired; None if there is none."""
        ...

    def want(self, thread_id: str, what: str) -> MaybeFuture[Lease | None]:
        """Save a request, `interrupt` or `rollback`, for the run that holds a thread.

        The run receives it when it renews its lease. Return the lease; None if no run holds the thread.
        """
        ...

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> MaybeFuture[Sequence[SavedCheckpoint]]:
        """Return checkpoints, newest first: the head of a branch and its ancestors, or the checkpoints of all branches.

        With `before`, return only the checkpoints that come after it in this order. Raises CheckpointNotFound if
        `before` is not among the checkpoints.
        """
        ...

    def branches(self, thread_id: str, *, namespace: str = "") -> MaybeFuture[Sequence[str]]:
        """Return the names of the branches of a thread, sorted."""
        ...

    def namespaces(self, thread_id: str) -> MaybeFuture[Sequence[str]]:
        """Return the namespaces of a thread that have checkpoints, sorted.

        The namespace of the thread's own graph is empty. The others are those of subgraphs.
        """
        ...

    def threads(self, *, prefix: str = "", limit: int | None = None) -> MaybeFuture[Sequence[ThreadEntry]]:
        """Return the threads whose ids begin with `prefix`, the most recently claimed or released first."""
        ...

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> MaybeFuture[Pruned]:
        """Delete old checkpoints of one thread, or of all threads, and return their number.

        With `dry_run` they are only counted. The remaining checkpoints can still be loaded, even if they were forked
        from a deleted checkpoint. Event logs are kept.
        """
        ...

    def copy_thread(self, thread_id: str, to: str) -> MaybeFuture[None]:
        """Copy a thread, with its branches and event logs, to a new thread with the id `to`.

        Raises CheckpointNotFound if the thread does not exist, and CheckpointConflict if `to` exists.
        """
        ...

    def delete_thread(self, thread_id: str, *, also: Sequence[Any] = ()) -> MaybeFuture[None]:
        """Delete a thread, if it exists.

        `also` is as in `commit`; these writes are made even if the thread does not exist. If one of them raises an
        error, nothing is deleted.
        """
        ...


@runtime_checkable
class WorkspaceCheckpointer(Checkpointer, Protocol):
    """A checkpointer that keeps the threads of several workspaces separate. A service needs such a checkpointer.

    Each object is bound to one workspace. All its methods, including those that list or prune threads, see only the
    threads of this workspace. Only `workspaces` lists all workspaces.
    """

    @property
    def workspace(self) -> str:
        """The workspace to which this object is bound."""
        ...

    @property
    def scope(self) -> Hashable:
        """A key that is equal for objects that see the same threads, because their data and workspace are the same."""
        ...

    def for_workspace(self, workspace: str) -> WorkspaceCheckpointer:
        """Return a checkpointer for the same data that is bound to another workspace. It need not be closed."""
        ...

    def workspaces(self) -> MaybeFuture[Sequence[str]]:
        """Return the workspaces that have threads, sorted."""
        ...


def read_outlines(saver: Checkpointer, thread_id: str, **options: Any) -> MaybeFuture[Sequence[SavedCheckpoint]]:
    """Return the history of a thread for lists in which values do not matter. `options` are those of `history`.

    A saver may have a method `outlines`, which returns the checkpoints without their values, at a lower cost.
    """
    return getattr(saver, "outlines", saver.history)(thread_id, **options)


def check_value(saver: object, value: Any) -> None:
    """Raise SerdeError if a saver cannot store a value. A saver without a method `check_value` can store any value."""
    check = getattr(saver, "check_value", None)
    if check is not None:
        check(value)


def scope_of(saver: object) -> Hashable:
    """Return a key that is equal for savers that see the same threads."""
    return getattr(saver, "scope", id(saver))


def check_workspace(workspace: Any) -> str:
    """Return the name of a workspace. Raises InvalidConfig unless it is a non-empty string that can be encoded."""
    return checked_name("workspace", workspace)
