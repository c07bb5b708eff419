"""The records in a recording. A call has supersteps, which have tasks, which may have called subgraphs.

The names of the fields are part of the file format, except those that `file.py` translates. Class names are not.
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
    """A dict of updates by field, or a list of `[field, update]` pairs."""
    targets: list[Any]
    goto: bool
    """True if the node chose its targets itself, in a Command or as Sends; False if they follow from its edges."""


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
"""The outcome of a task; None if the task was stopped because another one failed."""


@dataclass(slots=True)
class RecordedTask:
    """An execution of a node."""

    node: str
    arg: Any
    """The argument of a Send; NO_ARG if the node's input was read from the state."""
    id: str
    outcome: RecordedOutcome = None
    attempts: int = 1
    """The number of attempts; 0 if the result came from a cache."""
    journal: list[list[Any]] = field(default_factory=list[list[Any]])
    """A list for each completed step: the id of the @task call that made it, relative to this task (empty for the
    node itself); the name of the step; its ordinal; a fingerprint of its arguments; its result."""
    calls: list[RecordedRun] = field(default_factory=list["RecordedRun"])
    """The runs of the subgraphs that the task called."""


@dataclass(slots=True)
class RecordedState:
    """The state and the frontier after a superstep."""

    changes: dict[str, Any]
    """Differences from the previous state, by field, in the form in which checkpoints store them."""
    frontier: list[list[Any]]
    """The due tasks, in the form of `plain_tasks`."""
    deferred: list[list[Any]]
    """The deferred tasks, in the form of `plain_deferred`."""
    joins: list[list[Any]]
    """The incomplete joins, in the form of `plain_joins`."""
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
    """Tokens spent by the tasks, without the tokens spent in subgraphs."""
    cost: float = 0.0
    out_of_budget: bool = False
    """True if the superstep ran the fallback node of an exceeded budget."""


@dataclass(slots=True)
class RecordedEnd:
    """The end of a run."""

    status: str
    interrupts: list[str]
    """The ids of the open interrupts."""
    node: str | None
    """The node that failed, if one did."""
    error: list[str] | None
    """The class name of the error, and its message."""
    stopped: list[str] | None = None
    """If the run was asked to stop: `cancel` or `drain`, and the reason."""


@dataclass(slots=True)
class ExistingCheckpoint:
    """A checkpoint that was on the thread before a run, and was not saved by a recorded run."""

    id: str
    step: int
    values: dict[str, Any]
    frontier: list[Any]
    """The due tasks, in the form of `checkpoint.forms.plain_task`."""
    deferred: list[Any]
    """A list for each deferred task: the task in the same form, `gather`, and the sender."""
    joins: dict[str, list[str]]
    """The nodes that have completed, by the key of the incomplete join."""
    reported: list[Any]
    """`[field, update]` pairs that a subgraph reports to its caller."""
    source: str
    metadata: dict[str, Any]
    pending: list[Any]
    version: str | None


@dataclass(slots=True)
class RecordedRun:
    """A run: a call of the recorded graph, or a task's call of a subgraph."""

    number: int
    """The number of the call in the recording, from 1; a subgraph has the number of the outermost call."""
    graph: str
    """The name of the graph."""
    version: str | None
    namespace: str
    input: Any
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
    """The id of the checkpoint at the head of the thread when the run started; None if there was none."""
    existing_checkpoints: list[ExistingCheckpoint] = field(default_factory=list[ExistingCheckpoint])
    """The checkpoints that the run depends on and that no recorded run has saved."""
    steps: list[RecordedStep] = field(default_factory=list[RecordedStep])
    end: RecordedEnd | None = None
    """None if the run was abandoned, for example because a stream was not read to its end."""

    @property
    def has_started(self) -> bool:
        """False if the call raised an error before the run started."""
        return self.end is not None or bool(self.steps)

    def normalize(self) -> None:
        """Remove the records of abandoned work, and sort each task's calls of subgraphs, which may be concurrent."""
        if self.end is None and self.steps and self.steps[-1].after is None:
            self.steps.pop()  # the run was abandoned in this superstep
        for step in self.steps:
            for task in step.tasks:
                task.calls = sorted((call for call in task.calls if call.has_started), key=lambda call: call.namespace)
                for call in task.calls:
                    call.normalize()


@dataclass(slots=True)
class Recording:
    """The contents of a file: the calls of the graph, in the order in which they started."""

    calls: list[RecordedRun]
