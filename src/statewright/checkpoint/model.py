"""What a thread remembers: where it stands, what is due, what has landed, what it asks.

`Checkpoint`, `Task` and `TaskResult` are made once or more in every superstep, so they are plain slotted classes;
nothing changes them after they were made. What only a saver needs is in `Commit` and `SavedCheckpoint`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from statewright.channels import copy_container
from statewright.checkpoint.holders import is_holder_gone
from statewright.events import Log
from statewright.ids import CheckpointId, InterruptId, TaskId, task_id


class _NoArg:
    def __repr__(self) -> str:
        return "NO_ARG"

    def __reduce__(self) -> str:
        return "NO_ARG"  # a copy is the same object


NO_ARG: Final[Any] = _NoArg()
"""As the argument of a task: its input is read from the state."""

Source = Literal["input", "loop", "update", "fork"]
"""What made a checkpoint: fresh input, a superstep, `update_state`, a fork."""

Values = dict[str, Any]


class Task:
    """One execution of one node, due in one superstep."""

    __slots__ = ("arg", "node", "origin", "position")

    def __init__(self, node: str, arg: Any, origin: str, position: int) -> None:
        self.node = node
        self.arg = arg
        """The argument of a Send; NO_ARG if the input is read from the state."""
        self.origin = origin
        """The commit that made it due."""
        self.position = position
        """Its place among what that commit made due."""

    @property
    def id(self) -> TaskId:
        """Worked out when it is asked for: most tasks never are. Stays the same through fork, copy and update."""
        return task_id(self.origin, self.position)

    @property
    def planned_id(self) -> TaskId:
        """The id of the task of a superstep: of this one, or of the one that has called it. The log knows no others."""
        return task_id(self.origin, self.position)

    @property
    def caller(self) -> Task | None:
        """The calling task, for a step or a `@task` call; None for a task scheduled by a superstep."""
        return None

    def __repr__(self) -> str:
        arg = "" if self.arg is NO_ARG else f", {self.arg!r}"
        return f"Task({self.node!r}{arg})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.node, self.origin, self.position))


class TimeLimit(NamedTuple):
    """How long an attempt at a task may take, in seconds."""

    run: float | None
    idle: float | None
    """How long it may give no sign of life."""
    heartbeat_only: bool
    """Whether only heartbeats are signs of life."""


class TimedTask(Task):
    """A task whose Send says how long an attempt at it may take; a class of its own, so that others stay small."""

    __slots__ = ("timeout",)

    def __init__(self, node: str, arg: Any, origin: str, position: int, timeout: TimeLimit) -> None:
        super().__init__(node, arg, origin, position)
        self.timeout = timeout


class DeferredTask:
    """A task that is due but waits until nothing can come before it any more."""

    __slots__ = ("gather", "sender", "task")

    def __init__(self, task: Task, *, gather: bool = False, sender: str = "") -> None:
        self.task = task
        self.gather = gather
        """Whether it will be one argument of a task, together with the others gathered for the node."""
        self.sender = sender
        """The node that sent it; gathered arguments are in the order in which their senders were declared."""

    def __repr__(self) -> str:
        return f"Held({self.task!r}{', gather=True' if self.gather else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeferredTask):
            return NotImplemented
        return (self.task, self.gather, self.sender) == (other.task, other.gather, other.sender)

    def __hash__(self) -> int:
        return hash(self.task)


Joins = Mapping[str, frozenset[str]]
"""For each join edge that some have reached, by its key, who has."""
NO_JOINS: Final[Joins] = {}


class Checkpoint:
    """Where a thread stands after a superstep: all that the next one depends on."""

    __slots__ = ("frontier", "held", "id", "joins", "reported", "step", "values")

    def __init__(
        self,
        id: str,  # noqa: A002  # the field's word
        step: int,
        values: Values,
        frontier: tuple[Task, ...],
        held: tuple[DeferredTask, ...] = (),
        joins: Joins = NO_JOINS,
        reported: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.id = id
        self.step = step
        """How many commits the thread had before this one."""
        self.values = values
        self.frontier = frontier
        """The tasks of the next superstep, in the order in which their writes will be applied."""
        self.held = held
        self.joins = joins
        self.reported = reported
        """Of a subgraph: what its tasks have written so far to fields that merge, for its caller to merge too."""

    @property
    def at_rest(self) -> bool:
        """Whether nothing is left to do."""
        return not self.frontier and not self.held

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, values={self.values!r}, frontier={self.frontier!r}, held={self.held!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # pyright: ignore  # holds a dict


class TaskResult:
    """What one task brought: its writes, and where it goes."""

    __slots__ = ("folded", "goto", "targets", "task", "writes")

    def __init__(
        self,
        task: Task,
        writes: dict[str, Any] | list[tuple[str, Any]],
        targets: Sequence[Any],
        *,
        goto: bool = False,
        folded: Values | None = None,
    ) -> None:
        self.task = task
        self.writes = writes
        """A dict where each channel is written once, which is nearly always; else pairs in order."""
        self.targets = targets
        """Names of nodes, and Sends."""
        self.goto = goto
        """Whether the targets stand instead of the node's own edges."""
        self.folded = folded
        """The state with this task's writes alone, if a conditional edge has needed it; never saved."""

    def __repr__(self) -> str:
        return f"TaskResult({self.task!r}, {self.writes!r}, {list(self.targets)!r})"


InterruptKind = Literal["question", "timer", "event"]
"""What it waits for: an answer, an instant, or an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt:
    """A pause of one task until something comes from outside."""

    id: InterruptId
    """Names this question of this task; the same whenever the node is executed again."""
    value: Any
    """What the node wants to be known by those who answer."""
    kind: InterruptKind = "question"
    schema: Any = None
    """The type that an answer must have, if the node asked for one."""
    event: str | None = None
    """The name of the event that it waits for."""
    due_at: datetime | None = None
    """When a timer goes off, or the wait for an answer or event ends."""
    key: str | None = None
    """The name that tells it from the other questions of its task, if the node gave it one."""
    namespace: str = ""
    """Empty for a question of the run's own graph; the path of tasks that leads to the subgraph that asks."""
    schema_form: str | None = field(default=None, repr=False, compare=False)
    """The schema as text: what it is compared by when its task asks again, since not every type can be stored."""

    def shown(self) -> Interrupt:
        """Return the question with a copy of its value, which a reader may modify."""
        value = copy_container(self.value)
        return self if value is self.value else replace(self, value=value)


JournalKey = tuple[TaskId, str, int]
"""The task, the name of the step, and how often the task had called that name before."""


def step_id(key: JournalKey) -> TaskId:
    """Return the task id of a step or a `@task` call, derived from its journal key."""
    task_id, name, ordinal = key
    return TaskId(f"{task_id}:{name}.{ordinal}")


class JournalEntry(NamedTuple):
    """What a step was given, as a fingerprint, and what came of it."""

    given: str
    value: Any


@dataclass(slots=True)
class Pending:
    """What is known about the tasks of a checkpoint's frontier before the next commit."""

    completed: dict[TaskId, TaskResult] = field(default_factory=dict[TaskId, TaskResult])
    interrupts: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    answers: dict[InterruptId, Any] = field(default_factory=dict[InterruptId, Any])
    errors: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    attempts: dict[TaskId, int] = field(default_factory=dict[TaskId, int])
    """How often a task that is tried again has failed so far."""
    retries: dict[TaskId, datetime] = field(default_factory=dict[TaskId, datetime])
    """When a task that has failed is to be tried again."""
    journal: dict[JournalKey, JournalEntry] = field(default_factory=dict[JournalKey, JournalEntry])
    """The steps that its tasks have done."""
    paused: bool = False
    """Whether a run has stopped here at a breakpoint: the next one passes it."""
    settled: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    """Questions that tasks had asked, and were answered, before those in `interrupts`."""

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """Every question without an answer, in task order."""
        return tuple(question for task in self.interrupts for question in self.open_of(task))

    def open_of(self, task: TaskId) -> tuple[Interrupt, ...]:
        """The questions of a task without an answer; one that has landed asks nothing any more."""
        if task in self.completed:
            return ()
        return tuple(question for question in self.interrupts.get(task, ()) if question.id not in self.answers)

    def waits(self, task: TaskId) -> bool:
        """Whether the task cannot run again: a question of it is open.

        Of the questions of a subgraph one answer is enough: in there it is told again which of its tasks still wait.
        """
        asked = self.interrupts.get(task, ())
        still_open = [interrupt for interrupt in asked if interrupt.id not in self.answers]
        if len(still_open) == len(asked):
            return bool(asked)
        return any(not interrupt.namespace for interrupt in still_open)

    def questions(self) -> dict[TaskId, tuple[Interrupt, ...]]:
        """Every question that the tasks have asked, answered or not, by task."""
        if not self.settled:
            return self.interrupts
        tasks = {**self.settled, **self.interrupts}
        return {task: (*self.settled.get(task, ()), *self.interrupts.get(task, ())) for task in tasks}

    def forked(self) -> Pending:
        """Return what a fork of this checkpoint keeps: results and earlier answers. Open questions are asked again.

        The answers that led a task to its open question are kept.
        """
        before = {one.id for asked in self.settled.values() for one in asked}
        before -= {one.id for asked in self.interrupts.values() for one in asked}
        return Pending(
            completed=dict(self.completed),
            interrupts=dict(self.interrupts),
            answers={question: answer for question, answer in self.answers.items() if question in before},
            journal=dict(self.journal),
            paused=self.paused,
            settled=dict(self.settled),
        )

    def merged(self, other: Pending) -> Pending:
        """Both together; `other` is later."""
        return Pending(
            {**self.completed, **other.completed},
            {**self.interrupts, **other.interrupts},
            {**self.answers, **other.answers},
            {**self.errors, **other.errors},
            {**self.attempts, **other.attempts},
            {**self.retries, **other.retries},
            {**self.journal, **other.journal},
            self.paused or other.paused,
            _joined(self.settled, other.settled) if other.settled else self.settled,
        )

    def of(self, tasks: Collection[TaskId]) -> Pending:
        """What is known of some of the tasks, and all answers."""
        return Pending(
            {task: result for task, result in self.completed.items() if task in tasks},
            {task: questions for task, questions in self.interrupts.items() if task in tasks},
            dict(self.answers),
            {task: error for task, error in self.errors.items() if task in tasks},
            {task: count for task, count in self.attempts.items() if task in tasks},
            {task: at for task, at in self.retries.items() if task in tasks},
            {key: entry for key, entry in self.journal.items() if key[0].partition(":")[0] in tasks},
            self.paused and bool(tasks),
            {task: questions for task, questions in self.settled.items() if task in tasks},
        )

    def __bool__(self) -> bool:
        return bool(
            self.completed
            or self.interrupts
            or self.answers
            or self.errors
            or self.attempts
            or self.retries
            or self.journal
            or self.paused
            or self.settled
        )


def _joined(
    earlier: dict[TaskId, tuple[Interrupt, ...]], later: dict[TaskId, tuple[Interrupt, ...]]
) -> dict[TaskId, tuple[Interrupt, ...]]:
    joined = dict(earlier)
    for task, questions in later.items():
        ids = {question.id for question in questions}
        joined[task] = (*(one for one in earlier.get(task, ()) if one.id not in ids), *questions)
    return joined


class LeaseRequest(NamedTuple):
    """The hold of a run on its thread, as part of a write: the write happens only if the hold is right."""

    owner: str
    now: datetime
    until: datetime | None
    """How long the run holds the thread from now on, unless it writes again; None lets go with this write."""
    claims: bool = False
    """Whether the run takes the thread with this write. Otherwise it must still have it."""
    expected_epoch: int | None = None
    """With a claim: the epoch that the thread had when the run loaded it, or the claim is refused. None accepts any."""


class Lease(NamedTuple):
    """The right of one run to advance a thread, for a time."""

    owner: str
    epoch: int
    """Counts the changes of holder: each claim, each release, each revival of a lapsed lease, and each write that
    names no holder. Between two loads of equal epochs only a live holder can have written."""
    until: datetime
    wanted: str | None = None
    """What another run wants of the owner: `interrupt` or `rollback`."""

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether another run may take the thread: the time is over, or the holder exists no more."""
        return self.until <= now or is_holder_gone(self.owner)


class BranchKey(NamedTuple):
    """What has one head: a branch of a namespace of a thread."""

    thread_id: str
    namespace: str = ""
    """Empty for the run's own graph; `node:task_id` segments joined by `|` for its subgraphs."""
    branch: str = "main"


@dataclass(kw_only=True, slots=True)
class Commit:
    """What one superstep saves, as a whole or not at all. Made in every superstep, so not frozen; nobody changes it."""

    line: BranchKey
    expected: CheckpointId | None
    """The head that the line must have, or the commit is refused."""
    parent_id: CheckpointId | None
    """What the checkpoint follows; the head, but for a fork."""
    checkpoint: Checkpoint
    deltas: Mapping[str, Any] | None
    """For each channel that differs from the parent, its new value, a smaller change that leads to it (see
    `channels/delta.py`), or MISSING if it is gone; None if the values are to be stored whole."""
    source: Source
    run_id: str
    created_at: datetime
    reported: Any = None
    """What changes of `Checkpoint.reported`, in the form of a delta; None if nothing does."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: Pending | None = None
    """What is already known about the new frontier: a fork brings landed results and answers along."""
    hold: LeaseRequest | None = None
    """The hold of the run that commits; None asks for nothing."""
    log: Log | None = None
    """What the commit adds to the log of a run; the saver numbers it."""
    drops: tuple[str, ...] = ()
    """Namespaces of subgraph calls whose tasks this commit consumes; they go on its own branch."""
    beside: tuple[Commit, ...] = ()
    """What is saved with it on other lines of the thread, or not at all: calls that a fork brings along."""
    graph_version: str | None = None
    """The version of the graph that made the checkpoint."""
    overlaps: bool = False
    """Whether the run goes on before the commit is through, so that a future is the better answer."""
    size: int | None = None
    """How many bytes it took; set by savers that know."""

    @property
    def results(self) -> Sequence[TaskResult]:
        """The results that the checkpoint applies, where whoever made the commit knows them."""
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A checkpoint as it was saved, with what has become known about its frontier since."""

    line: BranchKey
    parent_id: CheckpointId | None
    checkpoint: Checkpoint
    source: Source
    run_id: str
    created_at: datetime
    metadata: Mapping[str, Any]
    pending: Pending
    graph_version: str | None = None
    epoch: int | None = field(default=None, compare=False)
    """Of a loaded checkpoint, the epoch of its thread (see `Lease.epoch`); None in a history."""
    lease: Lease | None = field(default=None, compare=False)
    """Of a loaded checkpoint, the lease on its thread, read together with it."""

    @property
    def id(self) -> CheckpointId:
        return CheckpointId(self.checkpoint.id)
