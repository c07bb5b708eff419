"""The outcomes of tasks and of a run."""

from __future__ import annotations

from typing import Literal

from statewright.checkpoint import Checkpoint, Interrupt, Task, TaskResult
from statewright.graph import ParentCommand


class Failure:
    """The outcome of a task that raised an error, or that returned a Command for the calling graph.

    Such a Command travels as an exception, `ParentCommand`.
    """

    __slots__ = ("error", "is_saved", "is_secondary", "task")

    def __init__(self, task: Task, error: BaseException) -> None:
        self.task = task
        self.error = error
        self.is_secondary = False
        """True if another task failed earlier: the run raises the error of that task, not this one."""
        self.is_saved = False
        """True if the failure is already saved in the thread and in its log."""

    @property
    def is_parent_command(self) -> bool:
        """True if the task has not failed, but returned a Command for the graph that called this one."""
        return isinstance(self.error, ParentCommand)


class Pause:
    """The outcome of a task that waits for answers, for a time, or for an event."""

    __slots__ = ("interrupts", "task")

    def __init__(self, task: Task, interrupts: tuple[Interrupt, ...]) -> None:
        self.task = task
        self.interrupts = interrupts


Outcome = TaskResult | Failure | Pause
OutcomeStatus = Literal["completed", "waiting", "paused", "failed", "cancelled"]
"""The status of a run that has stopped.

A run is `waiting` if its interrupts need answers, times or events. It is `paused` at a breakpoint, which was set by
`interrupt_before` or `interrupt_after`.
"""


class RunOutcome:
    """The outcome of a run, which `core.loop` returns to the driver."""

    __slots__ = ("checkpoint", "error", "interrupts", "node", "status")

    def __init__(
        self,
        status: OutcomeStatus,
        checkpoint: Checkpoint,
        *,
        interrupts: tuple[Interrupt, ...] = (),
        error: BaseException | None = None,
        node: str | None = None,
    ) -> None:
        self.status: OutcomeStatus = status
        self.checkpoint = checkpoint
        self.interrupts = interrupts
        self.error = error
        self.node = node
        """The node that raised `error`; None if no node did."""
