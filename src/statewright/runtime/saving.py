"""The form in which a checkpoint is saved: without what its channels do not want kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.checkpoint import Checkpoint, Held, Task
from statewright.runtime.program import Program


def saved_form(program: Program, checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint without untracked values, in the state and in the arguments of Sends."""
    unsaved = program.unsaved
    if not unsaved:
        return checkpoint
    return Checkpoint(
        checkpoint.id,
        checkpoint.step,
        {name: value for name, value in checkpoint.values.items() if name not in unsaved},
        tuple(_stripped(task, unsaved) for task in checkpoint.frontier),
        tuple(Held(_stripped(one.task, unsaved), gather=one.gather, sender=one.sender) for one in checkpoint.held),
        checkpoint.joins,
        tuple((name, update) for name, update in checkpoint.reported if name not in unsaved),
    )


def _stripped(task: Task, unsaved: frozenset[str]) -> Task:
    if not isinstance(task.arg, Mapping):
        return task
    arg = cast(Mapping[str, Any], task.arg)  # pyright: ignore[reportUnknownMemberType]
    kept = {name: value for name, value in arg.items() if name not in unsaved}
    return Task(task.node, kept, task.origin, task.position)
