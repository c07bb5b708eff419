"""The records of a recording: a tree of calls, their supersteps, the tasks of these, and the subgraphs that tasks call.

The names of the fields are part of the file format; those of the classes are not (see `file`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statewright.checkpoint import Interrupt
from statewright.graph import Budget, Command


@dataclass(slots=True)
class Completed:
    """The task has a result."""

    writes: Any
    targets: list[Any]
    goto: bool


@dataclass(slots=True)
class Interrupted:
    """The task asked questions and waits for the answers."""

    interrupts: list[Interrupt]


@dataclass(slots=True)
class Failed:
    """The task raised an exception."""

    error: BaseException


@dataclass(slots=True)
class ForParent:
    """The task returned a Command for the calling graph."""

    command: Command[Any]
    more: list[Command[Any]] = field(default_factory=list["Command[Any]"])
    """Further commands that the task returned."""


RecordedOutcome = Completed | Interrupted | Failed | ForParent | None
"""The outcome of a task; None if it was stopped because another one failed."""


@dataclass(slots=True)
class RecordedTask:
    """An execution of a node."""

    node: str
    arg: Any
    """The argument of a Send; NO_ARG if the input was read from the state."""
    id: str
    outcome: RecordedOutcome = None
    attempts: int = 1
    """The number of attempts; 0 if the result came from a cache."""
    journal: list[list[Any]] = field(default_factory=list[list[Any]])
    """The completed steps of the task: the id of the called task within it (empty for the node itself), the name, the
    ordinal, a fingerprint of the arguments, and the result."""
    calls: list[RecordedRun] = field(default_factory=list["RecordedRun"])
    """The runs of the subgraphs that the task called."""


@dataclass(slots=True)
class RecordedState:
    """The state and the frontier after a superstep."""

    changes: dict[str, Any]
    """Differences from the previous state, by field, in the form in which checkpoints store them."""
    frontier: list[list[Any]]
    """The node and the argument of each due task."""
    held: list[list[Any]]
    """The node of each deferred task, its argument, and whether it is gathered."""
    joins: list[list[Any]]
    """The starts of each incomplete join, its end, and the starts that have run."""
    fingerprint: str = ""
    """A fingerprint of the whole state."""


@dataclass(slots=True)
class RecordedStep:
    """A superstep, or the application of new input, which has no tasks."""

    number: int
    tasks: list[RecordedTask]
    after: RecordedState | None = None
    """The resulting state; None if the superstep was not completed."""
    is_input: bool = False
    tokens: int = 0
    """Tokens spent by the tasks, without those of subgraphs."""
    cost: float = 0.0
    out_of_budget: bool = False
    """True if the superstep ran the fallback node of an exceeded budget."""


@dataclass(slots=True)
class RecordedEnd:
    """The end of a run."""

    status: str
    interrupts: list[str]
    node: str | None
    error: list[str] | None
    """The name of the class of the error, and its message."""
    stopped: list[str] | None = None
    """`cancel` or `drain`, and the reason, if the run was asked to stop."""


@dataclass(slots=True)
class ExistingCheckpoint:
    """A checkpoint that was on the thread before a run, and was not saved by a recorded run."""

    id: str
    step: int
    values: dict[str, Any]
    frontier: list[Any]
    held: list[Any]
    joins: dict[str, list[str]]
    reported: list[Any]
    source: str
    metadata: dict[str, Any]
    pending: list[Any]
    version: str | None


@dataclass(slots=True)
class RecordedRun:
    """A run from its input to its end: a call of the recorded graph, or the run of a subgraph in a task."""

    number: int
    """The number of the call in the recording, from 1; a subgraph has the number of the outermost call."""
    graph: str
    version: str | None
    namespace: str
    given: Any
    """The input."""
    thread_id: str | None
    branch: str
    checkpoint_id: str | None
    saves: bool
    """True if the run had a checkpointer."""
    saves_on_exit: bool
    """True if the run saved only when it became idle (durability `exit`)."""
    recursion_limit: int
    breaks_before: list[str]
    breaks_after: list[str]
    on_unfinished: str | None
    budget: Budget | None
    keeps_calls: bool
    parent_task: str | None = None
    head: str | None = None
    """The checkpoint at the head of the thread when the run began."""
    found: list[ExistingCheckpoint] = field(default_factory=list[ExistingCheckpoint])
    """The existing checkpoints on which the run depends."""
    steps: list[RecordedStep] = field(default_factory=list[RecordedStep])
    rest: RecordedEnd | None = None
    """The end; None if the run was abandoned, as when a stream is not read to its end."""

    @property
    def has_begun(self) -> bool:
        """True if the run was not refused before it began."""
        return self.rest is not None or bool(self.steps)

    def normalize(self) -> None:
        """Remove the records of abandoned work, and sort the calls of each task, which may have been concurrent."""
        if self.rest is None and self.steps and self.steps[-1].after is None:
            self.steps.pop()  # the run was abandoned in this superstep
        for step in self.steps:
            for task in step.tasks:
                task.calls = sorted((call for call in task.calls if call.has_begun), key=lambda call: call.namespace)
                for call in task.calls:
                    call.normalize()


@dataclass(slots=True)
class Recording:
    """The contents of a file."""

    calls: list[RecordedRun]
