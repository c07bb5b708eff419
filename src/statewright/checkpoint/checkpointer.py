"""The port of savers, which keep the checkpoints of threads.

A method returns its result, or a future of it (`futures.MaybeFuture`): the sync driver waits for it, the async driver
awaits it. So one saver object serves both, without a second set of method names.
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
    """The checkpoints to keep of each branch of each namespace: the newest ones, and those since an instant.

    With both criteria, a checkpoint is kept if it meets one of them. The head of a branch is always kept, with its
    questions and results; so is all data that a remaining checkpoint needs. Raises InvalidConfig without a criterion,
    or if `keep_last` is less than one.
    """

    keep_last: int | None = None
    keep_since: datetime | None = None

    def __post_init__(self) -> None:
        if self.keep_last is None and self.keep_since is None:
            raise InvalidConfig("PrunePolicy() has no criterion. Pass keep_last= or keep_since=.")
        if self.keep_last is not None and (type(self.keep_last) is not int or self.keep_last < 1):
            raise InvalidConfig(f"keep_last is {self.keep_last!r}. Give a whole number of at least 1: heads stay.")
        if self.keep_since is not None and self.keep_since.tzinfo is None:
            raise InvalidConfig(f"keep_since={self.keep_since!r} has no time zone. Pass a time with one.")

    def kept(self, created_at: Sequence[datetime]) -> int:
        """Return how many checkpoints of a branch are kept, given their times, the newest first."""
        count = self.keep_last or 1
        if self.keep_since is not None:
            since = next((index for index, at in enumerate(created_at) if at < self.keep_since), len(created_at))
            count = max(count, since)
        return min(count, len(created_at))


class Pruned(NamedTuple):
    """The result of pruning: the deleted checkpoints, or those that would be deleted."""

    threads: int
    """The number of affected threads."""
    checkpoints: int


class ThreadEntry(NamedTuple):
    """A thread, as lists show it."""

    thread_id: str
    changed_at: datetime
    """The time of the last claim or release by a run."""
    owner: str | None
    """The run that holds it, though its lease may have lapsed."""


@runtime_checkable
class Checkpointer(Protocol):
    """Keeps the checkpoints of threads."""

    def load(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str = "main",
        checkpoint_id: CheckpointId | None = None,
    ) -> MaybeFuture[SavedCheckpoint | None]:
        """Return the head of a branch, or a checkpoint of the thread on any branch; None if there is none."""
        ...

    def allow(self, types: Iterable[type]) -> None:
        """Permit values of these classes to be saved and read: those that the schema of a state names."""
        ...

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        """Save a superstep and move the head, atomically.

        `also` are prepared writes of other views of the same database; they are saved with the commit or not at all.
        Raises CheckpointConflict if the head has moved, ThreadBusy or LeaseLost like `save_results`, and SerdeError
        for a value that cannot be stored; saves nothing then.
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
        """Add results to the frontier of a checkpoint, and entries to the log of the run; `also` is as in `commit`.

        Raises ThreadBusy if `hold` claims a thread that another run holds, LeaseLost if the hold is lost; saves nothing
        then.
        """
        ...

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> MaybeFuture[Sequence[Event]]:
        """Return the log of a thread, its runs in the order of their starts; or of one run, after a number."""
        ...

    def renew(self, thread_id: str, hold: LeaseRequest) -> MaybeFuture[Lease | None]:
        """Claim or extend the lease on a thread, or release it. Return the lease. Raises like `save_results`."""
        ...

    def lease(self, thread_id: str) -> MaybeFuture[Lease | None]:
        """Return the lease on a thread, which may have expired; None if there is none."""
        ...

    def want(self, thread_id: str, what: str) -> MaybeFuture[Lease | None]:
        """Leave a request, `interrupt` or `rollback`, for the holder of a thread. Return the lease, if there is one."""
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
        """Return saved checkpoints, the newest first: of one branch with its ancestors, or of all branches.

        Raises CheckpointNotFound if `before` is not among them.
        """
        ...

    def branches(self, thread_id: str, *, namespace: str = "") -> MaybeFuture[Sequence[str]]:
        """Return the names of the branches of a thread, sorted."""
        ...

    def namespaces(self, thread_id: str) -> MaybeFuture[Sequence[str]]:
        """Return the namespaces with checkpoints of a thread, sorted: its own is empty, the others are of subgraphs."""
        ...

    def threads(self, *, prefix: str = "", limit: int | None = None) -> MaybeFuture[Sequence[ThreadEntry]]:
        """Return the threads whose ids begin with `prefix`, the most recently changed first."""
        ...

    def prune(self, policy: PrunePolicy, *, thread_id: str | None = None, dry_run: bool = False) -> MaybeFuture[Pruned]:
        """Delete old checkpoints, of one thread or of all, and return their number; with `dry_run` only count them.

        The remaining checkpoints can be loaded as before, also those that forked from a deleted one. Logs remain.
        """
        ...

    def copy_thread(self, thread_id: str, to: str) -> MaybeFuture[None]:
        """Copy a thread with its branches and logs. Raises CheckpointNotFound, or CheckpointConflict if `to` exists."""
        ...

    def delete_thread(self, thread_id: str, *, also: Sequence[Any] = ()) -> MaybeFuture[None]:
        """Delete a thread if there is one. `also` is as in `commit`, and written in either case.

        Raises the error of a write in `also`, and deletes nothing then.
        """
        ...


@runtime_checkable
class WorkspaceCheckpointer(Checkpointer, Protocol):
    """A checkpointer that keeps the threads of several workspaces apart. A service needs one.

    Each object is bound to one workspace. All methods of the port, lists and `prune` included, see the threads of that
    workspace and no others.
    """

    @property
    def workspace(self) -> str:
        """The workspace to which this object is bound."""
        ...

    @property
    def scope(self) -> Hashable:
        """Equal for objects that see the same threads: the same data and the same workspace."""
        ...

    def for_workspace(self, workspace: str) -> WorkspaceCheckpointer:
        """Return a checkpointer of the same data that is bound to another workspace; it needs no closing."""
        ...

    def workspaces(self) -> MaybeFuture[Sequence[str]]:
        """List the workspaces that have threads, sorted."""
        ...


def check_value(saver: object, value: Any) -> None:
    """Raise SerdeError if a saver cannot store a value. A saver without a method `check_value` stores any."""
    check = getattr(saver, "check_value", None)
    if check is not None:
        check(value)


def scope_of(saver: object) -> Hashable:
    """Return a key for the data and workspace of a saver; savers that share both have equal keys."""
    return getattr(saver, "scope", id(saver))


def check_workspace(workspace: Any) -> str:
    """Return the name of a workspace. Raises InvalidConfig unless it is a valid, non-empty string."""
    return checked_name("workspace", workspace)
