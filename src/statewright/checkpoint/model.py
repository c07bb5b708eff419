"""The model of a thread's memory: checkpoints, due tasks, saved results and open questions.

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
from statewright.serde.codecs import stored_as


class _NoArg:
    def __repr__(self) -> str:
        return "NO_ARG"

    def __reduce__(self) -> str:
        return "NO_ARG"  # a copy is the same object


NO_ARG: Final[Any] = _NoArg()
"""As the argument of a task: its input is read from the state."""
stored_as(47, _NoArg, lambda _: None, lambda _: NO_ARG)

Source = Literal["input", "loop", "update", "fork"]
"""The origin of a checkpoint: input, a superstep, `update_state`, or a fork."""

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
        """Its position among the tasks that this commit made due."""

    @property
    def id(self) -> TaskId:
        """Worked out when it is asked for: most tasks never are. Stays the same through fork, copy and update."""
        return task_id(self.origin, self.position)

    @property
    def planned_id(self) -> TaskId:
        """The id of the task of a superstep: its own, or that of the task that called it. The log has no others."""
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
    """The longest duration of an attempt, in seconds."""

    run: float | None
    idle: float | None
    """The longest time without a heartbeat, in seconds."""
    heartbeat_only: bool
    """True if only explicit heartbeats count."""


class TimedTask(Task):
    """A task whose Send says how long an attempt at it may take; a class of its own, so that others stay small."""

    __slots__ = ("timeout",)

    def __init__(self, node: str, arg: Any, origin: str, position: int, timeout: TimeLimit) -> None:
        super().__init__(node, arg, origin, position)
        self.timeout = timeout


class DeferredTask:
    """A due task that waits until no other task can reach its node any more."""

    __slots__ = ("gather", "sender", "task")

    def __init__(self, task: Task, *, gather: bool = False, sender: str = "") -> None:
        self.task = task
        self.gather = gather
        """True if it becomes one argument of a task, together with the others gathered for the node."""
        self.sender = sender
        """The node that sent it; gathered arguments are in the order in which their senders were declared."""

    def __repr__(self) -> str:
        return f"DeferredTask({self.task!r}{', gather=True' if self.gather else ''})"

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
    """The state of a thread after a superstep: everything that the next superstep depends on."""

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
        """The number of commits before this one."""
        self.values = values
        self.frontier = frontier
        """The tasks of the next superstep, in the order in which their writes will be applied."""
        self.held = held
        self.joins = joins
        self.reported = reported
        """Of a subgraph: what its tasks have written so far to fields that merge, for its caller to merge too."""

    @property
    def at_rest(self) -> bool:
        """True if no task is left."""
        return not self.frontier and not self.held

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, values={self.values!r}, frontier={self.frontier!r}, held={self.held!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # pyright: ignore  # holds a dict


class TaskResult:
    """The result of one task: its writes and its targets."""

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
        """True if the targets replace the node's own edges."""
        self.folded = folded
        """The state with this task's writes alone, if a conditional edge has needed it; never saved."""

    def __repr__(self) -> str:
        return f"TaskResult({self.task!r}, {self.writes!r}, {list(self.targets)!r})"


InterruptKind = Literal["question", "timer", "event"]
"""The kind of a pause: for an answer, until an instant, or for an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt:
    """A pause of one task until input arrives from outside."""

    id: InterruptId
    """The id of this question of this task; stable when the node is executed again."""
    value: Any
    """The value that the node shows to whoever answers."""
    kind: InterruptKind = "question"
    schema: Any = None
    """The required type of the answer, if the node gave one."""
    event: str | None = None
    """The name of the event that it waits for."""
    due_at: datetime | None = None
    """When a timer goes off, or the wait for an answer or event ends."""
    key: str | None = None
    """The key that distinguishes it from other questions of its task, if the node gave one."""
    namespace: str = ""
    """Empty for a question of the run's own graph; the path of tasks that leads to the subgraph that asks."""
    schema_form: str | None = field(default=None, repr=False, compare=False)
    """The schema as text, for comparison when the task asks again: not every type can be stored."""

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
    """A recorded call of a step."""

    arguments: str
    """The fingerprint of the arguments."""
    value: Any
    """The result."""


@dataclass(slots=True)
class Pending:
    """Data about the tasks of a checkpoint's frontier, saved before the next commit."""

    completed: dict[TaskId, TaskResult] = field(default_factory=dict[TaskId, TaskResult])
    interrupts: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    answers: dict[InterruptId, Any] = field(default_factory=dict[InterruptId, Any])
    errors: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    attempts: dict[TaskId, int] = field(default_factory=dict[TaskId, int])
    """The number of failed attempts so far, by task."""
    retries: dict[TaskId, datetime] = field(default_factory=dict[TaskId, datetime])
    """When a task that has failed is to be tried again."""
    journal: dict[JournalKey, JournalEntry] = field(default_factory=dict[JournalKey, JournalEntry])
    """The recorded steps of its tasks."""
    paused: bool = False
    """True if a run has stopped here at a breakpoint, which the next run passes."""
    settled: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    """Questions that tasks had asked, and were answered, before those in `interrupts`."""

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """Every question without an answer, in task order."""
        return tuple(question for task in self.interrupts for question in self.open_of(task))

    def open_of(self, task: TaskId) -> tuple[Interrupt, ...]:
        """Return the open questions of a task; a task with a result has none."""
        if task in self.completed:
            return ()
        return tuple(question for question in self.interrupts.get(task, ()) if question.id not in self.answers)

    def waits(self, task: TaskId) -> bool:
        """Return whether the task cannot run yet because one of its questions is open.

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
        """Return the data of some of the tasks, and all answers."""
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
    """The lease part of a write: the write happens only if the run may hold the thread."""

    owner: str
    now: datetime
    until: datetime | None
    """The new end of the lease; None releases the thread with this write."""
    claims: bool = False
    """True if the run may claim the thread with this write. Otherwise it must still hold it."""
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
    """The request of another run to the owner: `interrupt` or `rollback`."""

    def has_lapsed(self, now: datetime) -> bool:
        """Return whether another run may take the thread: the time is over, or the holder exists no more."""
        return self.until <= now or is_holder_gone(self.owner)


class BranchKey(NamedTuple):
    """Identifies a branch of a namespace of a thread. Each has one head."""

    thread_id: str
    namespace: str = ""
    """Empty for the run's own graph; `node:task_id` segments joined by `|` for its subgraphs."""
    branch: str = "main"


@dataclass(kw_only=True, slots=True)
class Commit:
    """The atomic write of one superstep. Treated as immutable; not frozen, since one is made in every superstep."""

    line: BranchKey
    expected: CheckpointId | None
    """The head that the branch must have, or the commit is refused."""
    parent_id: CheckpointId | None
    """The parent checkpoint: the head, except for a fork."""
    checkpoint: Checkpoint
    deltas: Mapping[str, Any] | None
    """For each channel that differs from the parent, its new value, a smaller change that leads to it (see
    `channels/delta.py`), or MISSING if it is gone; None if the values are to be stored whole."""
    source: Source
    run_id: str
    created_at: datetime
    reported: Any = None
    """The change of `Checkpoint.reported` as a delta; None if there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: Pending | None = None
    """Data about the new frontier that is already known: a fork takes results and answers along."""
    hold: LeaseRequest | None = None
    """The lease request of the run; None if it holds no thread."""
    log: Log | None = None
    """Entries for the log of the run; the saver numbers them."""
    drops: tuple[str, ...] = ()
    """Namespaces of subgraph calls whose tasks this commit consumes; they go on its own branch."""
    beside: tuple[Commit, ...] = ()
    """Commits of other branches of the thread, saved atomically with this one: calls that a fork takes along."""
    graph_version: str | None = None
    """The version of the graph that made the checkpoint."""
    overlaps: bool = False
    """True if the run continues before the commit is done, so that the saver should return a future."""
    size: int | None = None
    """The number of bytes written, set by savers that know it."""

    @property
    def results(self) -> Sequence[TaskResult]:
        """The results that the checkpoint applies, if known."""
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A saved checkpoint with the results that were saved for its frontier since."""

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
