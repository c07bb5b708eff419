"""The status of threads, and the conversion of checkpoints, interrupts and leases to plain data for output."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from statewright.checkpoint import Interrupt, Lease, SavedCheckpoint, Task


def due_nodes(saved: SavedCheckpoint) -> list[str]:
    """Return the nodes that are due or waiting and not completed, without duplicates, in order."""
    return list(dict.fromkeys(task.node for task in _list_due(saved)))


def due_tasks(saved: SavedCheckpoint) -> list[str]:
    """Return the nodes like `due_nodes`, but with the name of the agent for a turn of a network."""
    return list(dict.fromkeys(task_label(task) for task in _list_due(saved)))


def task_label(task: Task) -> str:
    """Return the node of a task, followed by the agent if the task is a turn of a network."""
    agent = cast("Any", task.arg.get("agent")) if isinstance(task.arg, dict) else None  # pyright: ignore[reportUnknownMemberType]
    return f"{task.node} ({agent})" if task.node == "agent" and isinstance(agent, str) else task.node


def _list_due(saved: SavedCheckpoint) -> list[Task]:
    checkpoint = saved.checkpoint
    due = [*checkpoint.frontier, *(deferred.task for deferred in checkpoint.deferred)]
    return [task for task in due if task.id not in saved.pending.completed]


def thread_status(saved: SavedCheckpoint, lease: Lease | None, now: datetime) -> str:
    """Return the status of a branch, given its head and the lease on the thread.

    `now` is read from the clock of the saver.
    """
    pending = saved.pending
    if is_held(lease, now):
        return "running"
    if pending.open:
        return "waiting"
    if pending.paused:
        return "paused"
    if saved.checkpoint.is_complete:
        return "completed"
    return "failed" if pending.errors else "pending"


def is_held(lease: Lease | None, now: datetime) -> bool:
    """Return True if there is a lease, and it has not expired."""
    return lease is not None and not lease.has_lapsed(now)


def checkpoint_record(saved: SavedCheckpoint) -> dict[str, Any]:
    """Return a checkpoint as data, without the values of the state."""
    metadata = {name: value for name, value in saved.metadata.items() if name != "nodes"}
    return {
        "checkpoint": saved.id,
        "parent": saved.parent_id,
        "branch": saved.branch_key.branch,
        "step": saved.checkpoint.step,
        "source": saved.source,
        "created_at": saved.created_at,
        "run": saved.run_id,
        "nodes": list(saved.metadata.get("nodes", ())),
        "next": due_nodes(saved),
        "questions": [question_record(question) for question in saved.pending.open],
        **({"errors": dict(saved.pending.errors)} if saved.pending.errors else {}),
        **({"graph_version": saved.graph_version} if saved.graph_version is not None else {}),
        **({"metadata": metadata} if metadata else {}),
    }


def question_record(question: Interrupt) -> dict[str, Any]:
    """Return an interrupt as data."""
    return {
        "id": question.id,
        "kind": question.kind,
        "value": question.value,
        "event": question.event,
        "due_at": question.due_at,
    }


def lease_record(lease: Lease | None, now: datetime) -> dict[str, Any] | None:
    """Return a lease as data."""
    if lease is None:
        return None
    return {"owner": lease.owner, "epoch": lease.epoch, "until": lease.until, "lapsed": not is_held(lease, now)}
