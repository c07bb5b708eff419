"""A saved checkpoint as users see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from statewright.checkpoint import Interrupt, SavedCheckpoint, Task
from statewright.runtime.core.fold import pairs_of
from statewright.runtime.core.program import Program, readable

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    ValuesT = TypeParameter("ValuesT", default=Any, covariant=True)
else:
    ValuesT = TypeVar("ValuesT", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSnapshot:
    """A task that was due at a checkpoint."""

    id: str
    name: str
    result: Mapping[str, Any] | None
    """What it wrote, if it had landed while others had not."""
    error: str | None
    interrupts: tuple[Interrupt, ...]
    """Its questions that are still open."""
    state: StateSnapshot | None = None
    """Where its subgraph stands, if it is one, has begun, and was asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSnapshot(Generic[ValuesT]):
    """A thread at one checkpoint."""

    values: ValuesT
    next: tuple[str, ...]
    """The nodes that are due or wait, without those that have landed."""
    config: Mapping[str, Any]
    """Pass it to any call to start from this checkpoint."""
    metadata: Mapping[str, Any]
    """`source`, `step`, `run_id`, `branch`, the `nodes` that ran, and what the run discarded."""
    created_at: datetime | None
    parent_config: Mapping[str, Any] | None
    tasks: tuple[TaskSnapshot, ...]
    interrupts: tuple[Interrupt, ...]
    """Every open question, in task order."""


def snapshot_of(program: Program, saved: SavedCheckpoint) -> StateSnapshot:
    """What a user sees of a saved checkpoint."""
    checkpoint, pending = saved.checkpoint, saved.pending
    due = [*checkpoint.frontier, *(held.task for held in checkpoint.held)]
    return StateSnapshot(
        values=program.output(checkpoint.values),
        next=tuple(task.node for task in due if task.id not in pending.completed),
        config=config_of(saved, saved.id),
        metadata={
            **saved.metadata,
            "source": saved.source,
            "step": checkpoint.step,
            "run_id": saved.run_id,
            "branch": saved.line.branch,
        },
        created_at=saved.created_at,
        parent_config=config_of(saved, saved.parent_id) if saved.parent_id else None,
        tasks=tuple(_task(task, saved) for task in due),
        interrupts=tuple(question.shown() for question in pending.open),
    )


def empty_snapshot(program: Program, config: Mapping[str, Any]) -> StateSnapshot:
    """What a user sees of a thread that has no checkpoint."""
    return StateSnapshot(
        values=program.output({}),
        next=(),
        config=config,
        metadata={},
        created_at=None,
        parent_config=None,
        tasks=(),
        interrupts=(),
    )


def config_of(saved: SavedCheckpoint, checkpoint_id: str) -> dict[str, Any]:
    """The config that names a checkpoint of the same line."""
    named = {"thread_id": saved.line.thread_id, "checkpoint_id": checkpoint_id, "branch": saved.line.branch}
    if saved.line.namespace:
        named["namespace"] = saved.line.namespace
    return {"configurable": named}


def _task(task: Task, saved: SavedCheckpoint) -> TaskSnapshot:
    pending = saved.pending
    landed = pending.completed.get(task.id)
    return TaskSnapshot(
        id=task.id,
        name=task.node,
        result={name: readable(update) for name, update in pairs_of(landed)} if landed is not None else None,
        error=pending.errors.get(task.id),
        interrupts=tuple(question.shown() for question in pending.open_of(task.id)),
    )
