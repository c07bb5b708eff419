"""The port of savers, which keep the checkpoints of threads.

A method returns its answer, or a promise or `Future` of it: the sync driver asks for the result, the async driver
awaits it. So there is one saver object for both, and no second set of method names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from statewright.checkpoint.model import BranchKey, Commit, Lease, LeaseRequest, Pending, SavedCheckpoint
from statewright.checkpoint.retention import Pruned, PrunePolicy, ThreadEntry
from statewright.events import Event, Log
from statewright.futures import MaybeFuture
from statewright.ids import CheckpointId


def check_value(saver: object, value: Any) -> None:
    """Raise SerdeError if a saver says that it cannot store a value. One without a method `check_value` takes any."""
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
        """Be told that values of these classes will be saved, and may be read: those that a state's schema names."""
        ...

    def commit(self, commit: Commit, *, also: Sequence[Any] = ()) -> MaybeFuture[CheckpointId]:
        """Save a superstep and move the head, whole or not at all.

        `also` are writes that other views of the same database have made ready; they share the fate of the commit.
        Raises CheckpointConflict if the head moved, for its hold what `save_results` raises, SerdeError for what
        cannot be stored; saves nothing then.
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
        """Add to what is known about the frontier of a checkpoint, and to the log of the run; `also` as in `commit`.

        Raises ThreadBusy if `hold` claims a thread that another run holds, LeaseLost if the hold is lost; saves nothing
        then.
        """
        ...

    def events(
        self, thread_id: str, *, run_id: str | None = None, after: int = 0, limit: int | None = None
    ) -> MaybeFuture[Sequence[Event]]:
        """Return the log of a thread, its runs in the order of their starts; or of one run, after the entry `after`."""
        ...

    def renew(self, thread_id: str, hold: LeaseRequest) -> MaybeFuture[Lease | None]:
        """Prolong a hold, or let go; the lease. Raises like `save_results`."""
        ...

    def lease(self, thread_id: str) -> MaybeFuture[Lease | None]:
        """Return the lease on a thread, which may have expired; None if there is none."""
        ...

    def want(self, thread_id: str, what: str) -> MaybeFuture[Lease | None]:
        """Leave a request for the holder of a thread. Return the lease; None if there is none."""
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
        """Saved checkpoints, the newest first: of one branch with its ancestors, or of all of the thread."""
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
        """Forget old checkpoints, of one thread or of all; what that was, or would be with `dry_run`.

        What stays can be loaded as before: forks of what goes are kept whole. Logs stay too.
        """
        ...

    def copy_thread(self, thread_id: str, to: str) -> MaybeFuture[None]:
        """Copy a thread with everything that it has. Raises CheckpointConflict if `to` exists."""
        ...

    def delete_thread(self, thread_id: str, *, also: Sequence[Any] = ()) -> MaybeFuture[None]:
        """Delete a thread if there is one. `also` is as in `commit`, and written in either case.

        Raises what a write in `also` raises, and deletes nothing then.
        """
        ...
