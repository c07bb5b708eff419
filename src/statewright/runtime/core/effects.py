"""Effects: the operations that the core requests from a driver.

The core is a generator. It yields an effect, the driver performs it, and sends the result back or throws the error into
the core. The core itself never awaits, sleeps, reads a clock, draws a random number or accesses a file. It gets ids and
times from the driver, as results of effects.
"""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from typing import Any

from statewright.checkpoint import Checkpoint, Commit, LeaseRequest, Pending, Task
from statewright.events import Event, Log
from statewright.runtime.invocation.outcome import Outcome, RunOutcome
from statewright.runtime.invocation.run import CallingTask


class Load:
    """Load a checkpoint of the run's thread, by default the head of a branch. Sent back: a SavedCheckpoint or None."""

    __slots__ = ("branch", "checkpoint_id", "namespace")

    def __init__(self, branch: str, checkpoint_id: str | None = None, namespace: str | None = None) -> None:
        self.branch = branch
        self.checkpoint_id = checkpoint_id
        self.namespace = namespace
        """The namespace to load from; None for the run's own."""


class Namespaces:
    """List the namespaces of the run's thread. Sent back: their names."""

    __slots__ = ()


class AwaitTurn:
    """Wait for a thread that another run holds.

    Sent back: True once the thread is free; False if this run was requested to stop meanwhile. With
    `on_busy="interrupt"` or `"rollback"`, the other run is requested to stop.
    """

    __slots__ = ("holder",)

    def __init__(self, holder: str) -> None:
        self.holder = holder
        """The owner name in the lease on the thread."""


class RunTasks:
    """Run the tasks of a superstep. Sent back: a StepOutcome.

    A run reuses one object of this class, and sets its attributes for each superstep.
    """

    __slots__ = ("checkpoint", "tasks")

    def __init__(self, checkpoint: Checkpoint, tasks: tuple[Task, ...]) -> None:
        self.checkpoint = checkpoint
        """The checkpoint with the state that the tasks read."""
        self.tasks = tasks


class Stamp:
    """Create an id for the next write, and read the clock. Sent back: the id and the time.

    Yielded for writes that do not end a superstep. For the commit of a superstep, RunTasks sends back both.
    """

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step = step
        """The step of the checkpoint that will be written. In a replay the id derives from it."""


class Save:
    """Save a commit, as one transaction. Sent back: nothing."""

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveCallers:
    """Save the postponed commit of a task's run, once the runs around it have saved theirs (durability="exit").

    A subgraph yields this before it saves, because its data can only be found through the saved tasks of its callers. A
    run that does not complete its superstep yields it to save the ends of subgraph calls. Sent back: nothing.
    """

    __slots__ = ("caller",)

    def __init__(self, caller: CallingTask) -> None:
        self.caller = caller


class SavePending:
    """Save the partial results of a superstep that is not complete. Sent back: nothing."""

    __slots__ = ("checkpoint_id", "hold", "log", "pending")

    def __init__(
        self, checkpoint_id: str, pending: Pending, hold: LeaseRequest | None = None, log: Log | None = None
    ) -> None:
        self.checkpoint_id = checkpoint_id
        self.pending = pending
        self.hold = hold
        self.log = log


class Emit:
    """Emit an event. Sent back: nothing."""

    __slots__ = ("event",)

    def __init__(self, event: Event) -> None:
        self.event = event


StepOutcome = tuple[list[Outcome | None], str | None, datetime | None]
"""The outcomes of the tasks of a superstep, in task order, and the id and time for its commit (None without a saver).

An outcome is None if the task was stopped, because another task has failed or the run was cancelled.
"""

Effect = Load | Namespaces | AwaitTurn | RunTasks | Stamp | Save | SaveCallers | SavePending | Emit
RunGenerator = Generator[Effect, Any, RunOutcome]
