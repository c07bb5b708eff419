"""Effects: the operations that the core requests from a driver.

The core is a generator. It yields an effect, and the driver sends the result or throws the error into it. It never
awaits, sleeps, reads a clock, draws a random number or touches a file; ids and times come with the results.
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
    """Read the checkpoint that the run starts from. Sent back: a SavedCheckpoint, or None."""

    __slots__ = ("branch", "checkpoint_id", "namespace")

    def __init__(self, branch: str, checkpoint_id: str | None = None, namespace: str | None = None) -> None:
        self.branch = branch
        self.checkpoint_id = checkpoint_id
        self.namespace = namespace
        """The namespace to load, if it is not that of the run."""


class Namespaces:
    """List the namespaces of the run's thread. Sent back: their names."""

    __slots__ = ()


class AwaitTurn:
    """Wait for a thread that another run holds. Sent back: True; False if this run was stopped meanwhile.

    With `on_busy="interrupt"` or `"rollback"` the other run is requested to stop.
    """

    __slots__ = ("holder",)

    def __init__(self, holder: str) -> None:
        self.holder = holder
        """The owner of the thread's lease."""


class RunTasks:
    """Run the tasks of a superstep. Sent back: a StepOutcome.

    A run reuses one object of this class, and sets its attributes for each superstep.
    """

    __slots__ = ("checkpoint", "tasks")

    def __init__(self, checkpoint: Checkpoint, tasks: tuple[Task, ...]) -> None:
        self.checkpoint = checkpoint
        """Holds the state that the tasks read."""
        self.tasks = tasks


class Stamp:
    """Draw an id for the next write, and read the clock. Sent back: both, as a pair.

    Yielded for writes that do not end a superstep; the commit of a superstep gets both with the outcomes of its tasks.
    """

    __slots__ = ("step",)

    def __init__(self, step: int) -> None:
        self.step = step
        """The step of the checkpoint that is written; in a replay the id derives from it."""


class Save:
    """Save a commit, as one transaction. Sent back: nothing."""

    __slots__ = ("commit",)

    def __init__(self, commit: Commit) -> None:
        self.commit = commit


class SaveCallers:
    """Save the postponed commits of the calling run, and of the runs that called it (durability="exit").

    Yielded by a subgraph before it saves, because only the tasks of its callers lead to its data. Also yielded by a run
    that does not complete its superstep, for subgraph calls that have ended. Sent back: nothing.
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
"""The outcomes of the tasks of a superstep, in task order, and the id and time of its commit (None without a saver).

An outcome is None if the task was stopped because another one failed.
"""

Effect = Load | Namespaces | AwaitTurn | RunTasks | Stamp | Save | SaveCallers | SavePending | Emit
RunGenerator = Generator[Effect, Any, RunOutcome]
