"""What the next superstep runs: read off the frontier, which the last commit made explicit."""

from __future__ import annotations

from collections.abc import Iterable

from statewright.checkpoint import Checkpoint, Pending, Task
from statewright.runtime.core.program import is_hidden


def due_tasks(checkpoint: Checkpoint, pending: Pending) -> tuple[Task, ...]:
    """The tasks of the frontier that have no result yet and wait for no answer, in order.

    Pure: the same checkpoint gives the same tasks and ids.
    """
    return tuple(
        task for task in checkpoint.frontier if task.id not in pending.completed and not pending.waits(task.id)
    )


def matches(names: frozenset[str], tasks: Iterable[Task]) -> bool:
    """Whether a breakpoint names one of the tasks; `"*"` names all but those that users did not add."""
    if "*" in names:
        return any(not is_hidden(task) for task in tasks)
    return any(task.node in names for task in tasks)
