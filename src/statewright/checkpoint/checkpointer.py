"""The port of savers, which keep the checkpoints of threads.

A method returns its result, or a future of it (`futures.MaybeFuture`): the sync driver waits for it, the async driver
awaits it. So one saver object serves both, without a second set of method names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from statewright.checkpoint.lease import Lease, LeaseRequest
from statewright.checkpoint.model import BranchKey, Commit, Pending, SavedCheckpoint
from statewright.checkpoint.retention import Pruned, PrunePolicy, ThreadEntry
from statewright.events import Event, Log
from statewright.futures import MaybeFuture
from statewright.ids import CheckpointId


def check_value(saver: object, value: Any) -> None:
    """Raise SerdeError if a saver cannot store a value. A saver without a method `check_value` stores any."""
    check = getattr(saver, "check_value", None)
    if check is not None:
        check(value)


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
        line: BranchKey,
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
