"""The status of threads, and checkpoints as data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from statewright.checkpoint import (
    NO_ARG,
    BranchKey,
    Checkpoint,
    DeferredTask,
    Interrupt,
    Lease,
    Pending,
    SavedCheckpoint,
    Task,
    TaskResult,
)
from statewright.cli.threads.describe import checkpoint_record, due_nodes, lease_record, thread_status
from statewright.ids import CheckpointId, InterruptId

NOW = datetime.now(UTC)
LIVE, LAPSED = Lease("run", 1, NOW + timedelta(days=1)), Lease("run", 1, NOW - timedelta(minutes=5))
A, B = Task("a", NO_ARG, "o", 0), Task("b", NO_ARG, "o", 1)
QUESTION = Interrupt(id=InterruptId("1" * 32), value="?")


def saved(frontier: tuple[Task, ...] = (A,), held: tuple[DeferredTask, ...] = (), **pending: Any) -> SavedCheckpoint:
    return SavedCheckpoint(
        branch_key=BranchKey("t"),
        parent_id=CheckpointId("p"),
        checkpoint=Checkpoint("c", 3, {}, frontier, held),
        source="loop",
        run_id="run",
        created_at=NOW,
        metadata={"nodes": ["z"], "discarded": ["y"]},
        pending=Pending(**pending),
        graph_version="7",
    )


@pytest.mark.parametrize(
    ("head", "lease", "status"),
    [
        (saved(), LIVE, "running"),
        (saved(), LAPSED, "pending"),
        (saved(interrupts={A.id: (QUESTION,)}), None, "waiting"),
        (saved(interrupts={A.id: (QUESTION,)}, answers={QUESTION.id: 1}), None, "pending"),
        (saved(paused=True), None, "paused"),
        (saved(errors={A.id: "ValueError: no"}), None, "failed"),
        (saved(()), None, "completed"),
        (saved((), (DeferredTask(A),)), None, "pending"),
    ],
)
def test_the_status_of_a_head(head: SavedCheckpoint, lease: Lease | None, status: str) -> None:
    assert thread_status(head, lease, NOW) == status


def test_due_nodes_are_unique_and_not_completed() -> None:
    results = {A.id: TaskResult(A, {}, ())}
    more = (Task("b", 1, "o", 2), Task("b", 2, "o", 3))
    assert due_nodes(saved((A, B, *more), (DeferredTask(Task("c", NO_ARG, "o", 4)),), completed=results)) == ["b", "c"]


def test_records_have_everything_but_the_values() -> None:
    record = checkpoint_record(saved(interrupts={A.id: (QUESTION,)}, errors={B.id: "no"}))
    assert record == {
        "checkpoint": "c",
        "parent": "p",
        "branch": "main",
        "step": 3,
        "source": "loop",
        "created_at": NOW,
        "run": "run",
        "nodes": ["z"],
        "next": ["a"],
        "questions": [{"id": QUESTION.id, "kind": "question", "value": "?", "event": None, "due_at": None}],
        "errors": {B.id: "no"},
        "graph_version": "7",
        "metadata": {"discarded": ["y"]},
    }
    assert lease_record(LAPSED, NOW) == {"owner": "run", "epoch": 1, "until": LAPSED.until, "lapsed": True}
    assert lease_record(None, NOW) is None
