"""The port that every saver obeys: the memory of threads.

A method returns its answer, or a `concurrent.futures.Future` of it: the sync driver asks for the result, the async
driver awaits it. So there is one saver object for both, and no second set of method names.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar, runtime_checkable

from statewright.checkpoint.model import Commit, Line, Pending, SavedCheckpoint
from statewright.ids import CheckpointId

T = TypeVar("T")
Answered = T | Future[T]


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
    ) -> Answered[SavedCheckpoint | None]:
        """The head of a line, or one checkpoint of the thread whatever its branch; None if there is none."""
        ...

    def commit(self, commit: Commit) -> Answered[CheckpointId]:
        """Save a superstep and move the head. Raises CheckpointConflict, and saves nothing, if the head moved."""
        ...

    def save_results(self, line: Line, checkpoint_id: CheckpointId, pending: Pending) -> Answered[None]:
        """Add to what is known about the frontier of a checkpoint."""
        ...

    def history(
        self,
        thread_id: str,
        *,
        namespace: str = "",
        branch: str | None = None,
        before: CheckpointId | None = None,
        limit: int | None = None,
    ) -> Answered[Sequence[SavedCheckpoint]]:
        """Saved checkpoints, the newest first: of one branch with its ancestors, or of all of the thread."""
        ...

    def branches(self, thread_id: str, *, namespace: str = "") -> Answered[Sequence[str]]:
        """The names of the branches of a thread, sorted."""
        ...

    def copy_thread(self, thread_id: str, to: str) -> Answered[None]:
        """Give a new thread all that a thread has. Raises CheckpointConflict if `to` exists."""
        ...

    def delete_thread(self, thread_id: str) -> Answered[None]:
        """Forget a thread; nothing happens where there is none."""
        ...
