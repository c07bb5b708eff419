"""The outcomes of tasks and of a run."""

from __future__ import annotations

from typing import Literal

from statewright.checkpoint import Checkpoint, Interrupt, Task, TaskResult
from statewright.graph import ParentCommand


class Failure:
    """The outcome of a task that raised."""

    __slots__ = ("came_later", "error", "is_saved", "task")

    def __init__(self, task: Task, error: BaseException) -> None:
        self.task = task
        self.error = error
        self.came_later = False
        """True if another task had failed before, so that this is not the error of the superstep."""
        self.is_saved = False
        """True if the failure is already saved in the thread and in its log."""

    @property
    def leaves(self) -> bool:
        """True if this is not an error: the task returned a Command for the graph that called this one."""
        return isinstance(self.error, ParentCommand)


class Pause:
    """The outcome of a task that waits for answers."""

    __slots__ = ("interrupts", "task")

    def __init__(self, task: Task, interrupts: tuple[Interrupt, ...]) -> None:
        self.task = task
        self.interrupts = interrupts


Outcome = TaskResult | Failure | Pause
RestStatus = Literal["completed", "waiting", "paused", "failed", "cancelled"]


class RunOutcome:
    """The outcome of a run: the return value of the core."""

    __slots__ = ("checkpoint", "error", "interrupts", "node", "status")

    def __init__(
        self,
        status: RestStatus,
        checkpoint: Checkpoint,
        *,
        interrupts: tuple[Interrupt, ...] = (),
        error: BaseException | None = None,
        node: str | None = None,
    ) -> None:
        self.status: RestStatus = status
        """`waiting`: for answers; `paused`: at a node named by `interrupt_before` or `interrupt_after`."""
        self.checkpoint = checkpoint
        self.interrupts = interrupts
        self.error = error
        self.node = node
        """The node that raised `error`; None if the error is not that of a node."""
