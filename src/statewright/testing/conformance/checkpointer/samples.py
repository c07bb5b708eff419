"""Sample commits, lease requests and logs, helpers for reading, and the base class of the checkpointer suites."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    Checkpointer,
    Commit,
    Lease,
    LeaseRequest,
    Pending,
    SavedCheckpoint,
    Task,
    read_outlines,
)
from statewright.events import Log
from statewright.futures import resolve
from statewright.ids import CheckpointId, new_checkpoint_id

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
MAIN: Final = BranchKey("thread")
"""The main branch of the thread that most tests write to."""


class CheckpointerSuite:
    """Base class of the groups of tests."""

    def make_saver(self) -> Checkpointer:
        """Return a new, empty saver."""
        raise NotImplementedError

    def write_chain(self, saver: Checkpointer, count: int, branch_key: BranchKey = MAIN) -> list[CheckpointId]:
        """Commit `count` checkpoints, each after the previous one, and return their ids."""
        ids: list[CheckpointId] = []
        for n in range(count):
            ids.append(write_commit(saver, ids[-1] if ids else None, branch_key=branch_key, n=n))
        return ids


def commit_after(
    parent: str | None, *, branch_key: BranchKey = MAIN, n: int = 0, expected: Any = ..., **fields: Any
) -> Commit:
    """Return a commit that follows `parent`, and expects `parent` as the head unless `expected` is given."""
    checkpoint_id = new_checkpoint_id()
    values: dict[str, Any] = {
        "branch_key": branch_key,
        "expected": parent if expected is ... else expected,
        "parent_id": parent,
        "checkpoint": Checkpoint(checkpoint_id, n, {"n": n}, (Task("a", NO_ARG, checkpoint_id, 0),)),
        "deltas": {"n": n},
        "source": "loop",
        "run_id": "run",
        "created_at": datetime.now(UTC),
        "metadata": {"nodes": ["a"]},
    }
    return Commit(**{**values, **fields})


def write_commit(saver: Checkpointer, parent: str | None, **fields: Any) -> CheckpointId:
    """Commit a checkpoint after `parent`, and return its id."""
    return resolve(saver.commit(commit_after(parent, **fields)))


def lease_request(
    owner: str, *, after: float = 0.0, seconds: float | None = 60.0, claims: bool = False
) -> LeaseRequest:
    """Return a request for a lease of `seconds`, or a request to release the thread if `seconds` is None.

    It is made `after` seconds after NOW.
    """
    now = NOW + timedelta(seconds=after)
    return LeaseRequest(owner, now, None if seconds is None else now + timedelta(seconds=seconds), claims)


def make_log(run_id: str, *nodes: str) -> Log:
    """Return a log with one event for each node; without nodes, an event for the node `a`."""
    return Log(run_id, NOW, tuple(("task_finished", 1, node, None, None) for node in nodes or ("a",)))


def load_head(saver: Checkpointer, thread_id: str = "thread", **options: Any) -> SavedCheckpoint:
    """Return the head of a thread, or the checkpoint selected by the options of `load`; fail if there is none."""
    saved = resolve(saver.load(thread_id, **options))
    assert saved is not None
    return saved


def get_lease(saver: Checkpointer) -> Lease:
    """Return the lease on the thread; fail if there is none."""
    lease = resolve(saver.lease("thread"))
    assert lease is not None
    return lease


def history_ids(saver: Checkpointer, **options: Any) -> list[CheckpointId]:
    """Return the ids of the checkpoints of the thread, newest first, after checking that outlines agree with them."""
    history = resolve(saver.history("thread", **options))
    outlines = resolve(read_outlines(saver, "thread", **options))
    assert list(map(_without_values, outlines)) == list(map(_without_values, history))
    return [saved.id for saved in history]


def _without_values(saved: SavedCheckpoint) -> SavedCheckpoint:
    """Return a checkpoint as outlines have it: without values, reported updates and results of tasks."""
    checkpoint = saved.checkpoint
    control = (checkpoint.frontier, checkpoint.deferred, checkpoint.joins)
    return replace(saved, checkpoint=Checkpoint(checkpoint.id, checkpoint.step, {}, *control), pending=Pending())
