"""The model of a thread's memory: checkpoints, due tasks, saved results and open questions.

`Checkpoint`, `Task` and `TaskResult` are created at least once in every superstep, so they are slotted classes without
the cost of frozen dataclasses; they are treated as immutable. `Commit` and `SavedCheckpoint` hold the data that only
savers need. Leases are in `lease.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

from statewright.channels import copy_container
from statewright.checkpoint.lease import Lease, LeaseRequest
from statewright.events import Log
from statewright.ids import CheckpointId, InterruptId, TaskId, task_id
from statewright.serde.codecs import register_codec


class _NoArg:
    def __repr__(self) -> str:
        return "NO_ARG"

    def __reduce__(self) -> str:
        return "NO_ARG"  # a copy is the same object


NO_ARG: Final[Any] = _NoArg()
"""As the argument of a task: its input is read from the state."""
register_codec(47, _NoArg, lambda _: None, lambda _: NO_ARG)

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
        """The id, computed when it is read, because most never are. The same after a fork, copy or update."""
        return task_id(self.origin, self.position)

    @property
    def planned_id(self) -> TaskId:
        """The id of the task that a superstep scheduled: this one or its outermost caller. Logs use only these."""
        return task_id(self.origin, self.position)

    @property
    def caller(self) -> Task | None:
        """The calling task, for a step or a `@task` call; None for a task scheduled by a superstep."""
        return None

    def __repr__(self) -> str:
        arg = "" if self.arg is NO_ARG else f", {self.arg!r}"
        return f"Task({self.node!r}{arg})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task) or type(self) is not type(other):
            return NotImplemented
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return all(getattr(self, name) == getattr(other, name) for name in names)

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
"""The sources that have already run, by the key of each incomplete join edge."""
NO_JOINS: Final[Joins] = {}


class Checkpoint:
    """The state of a thread after a superstep: everything that the next superstep depends on."""

    __slots__ = ("deferred", "frontier", "id", "joins", "reported", "step", "values")

    def __init__(
        self,
        id: str,  # noqa: A002  # the field's word
        step: int,
        values: Values,
        frontier: tuple[Task, ...],
        deferred: tuple[DeferredTask, ...] = (),
        joins: Joins = NO_JOINS,
        reported: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.id = id
        self.step = step
        """The number of commits before this one."""
        self.values = values
        self.frontier = frontier
        """The tasks of the next superstep, in the order in which their writes will be applied."""
        self.deferred = deferred
        self.joins = joins
        self.reported = reported
        """Writes of the tasks of a subgraph to fields with a reducer; its caller applies them to its own state."""

    @property
    def is_complete(self) -> bool:
        """True if no task is left."""
        return not self.frontier and not self.deferred

    def __repr__(self) -> str:
        tasks = f"frontier={self.frontier!r}, deferred={self.deferred!r}"
        return f"Checkpoint(step={self.step}, values={self.values!r}, {tasks})"

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
        """A dict if each channel is written once, as nearly always; otherwise pairs in order."""
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
    """The question, as shown to the person or program that answers."""
    kind: InterruptKind = "question"
    schema: Any = None
    """The required type of the answer, if the node gave one."""
    event: str | None = None
    """The name of the event that it waits for."""
    due_at: datetime | None = None
    """The time at which a timer fires, or the wait for an answer or event ends."""
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
"""The task, the name of the step, and the number of earlier calls of that name by the task."""


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
    """The time of the next attempt at a failed task."""
    journal: dict[JournalKey, JournalEntry] = field(default_factory=dict[JournalKey, JournalEntry])
    """The recorded steps of its tasks."""
    paused: bool = False
    """True if a run has stopped here at a breakpoint, which the next run passes."""
    settled: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    """Answered questions of tasks that have since asked those in `interrupts`."""

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """All questions without an answer, in task order."""
        return tuple(question for task in self.interrupts for question in self.open_of(task))

    def open_of(self, task: TaskId) -> tuple[Interrupt, ...]:
        """Return the open questions of a task; a task with a result has none."""
        if task in self.completed:
            return ()
        return tuple(question for question in self.interrupts.get(task, ()) if question.id not in self.answers)

    def waits(self, task: TaskId) -> bool:
        """Return whether the task cannot run yet because one of its questions is open.

        If the questions are those of a subgraph, one answer is enough: the call of the subgraph is executed again, and
        finds out itself which of its tasks still wait.
        """
        questions = self.interrupts.get(task, ())
        still_open = [question for question in questions if question.id not in self.answers]
        if len(still_open) == len(questions):
            return bool(questions)
        return any(not question.namespace for question in still_open)

    def questions(self) -> dict[TaskId, tuple[Interrupt, ...]]:
        """Return all questions that the tasks have asked, answered or not, by task."""
        if not self.settled:
            return self.interrupts
        tasks = {**self.settled, **self.interrupts}
        return {task: (*self.settled.get(task, ()), *self.interrupts.get(task, ())) for task in tasks}

    def forked(self) -> Pending:
        """Return the data that a fork of this checkpoint keeps: results, and answers to earlier questions.

        The last questions are asked again. Tasks get as far as those by the earlier answers.
        """
        before = {question.id for questions in self.settled.values() for question in questions}
        before -= {question.id for questions in self.interrupts.values() for question in questions}
        return Pending(
            completed=dict(self.completed),
            interrupts=dict(self.interrupts),
            answers={question: answer for question, answer in self.answers.items() if question in before},
            journal=dict(self.journal),
            paused=self.paused,
            settled=dict(self.settled),
        )

    def merged(self, later: Pending) -> Pending:
        """Return the data with later data added, which wins."""
        return Pending(
            {**self.completed, **later.completed},
            {**self.interrupts, **later.interrupts},
            {**self.answers, **later.answers},
            {**self.errors, **later.errors},
            {**self.attempts, **later.attempts},
            {**self.retries, **later.retries},
            {**self.journal, **later.journal},
            self.paused or later.paused,
            _joined(self.settled, later.settled) if later.settled else self.settled,
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
    """Return the questions of both by task. A question that was asked again counts as a later one."""
    joined = dict(earlier)
    for task, questions in later.items():
        ids = {question.id for question in questions}
        joined[task] = (*(question for question in earlier.get(task, ()) if question.id not in ids), *questions)
    return joined


class BranchKey(NamedTuple):
    """Identifies a branch of a namespace of a thread. Each has one head."""

    thread_id: str
    namespace: str = ""
    """Empty for the run's own graph; `node:task_id` segments joined by `|` for its subgraphs."""
    branch: str = "main"


@dataclass(kw_only=True, slots=True)
class Commit:
    """The atomic write of one superstep. Treated as immutable; not frozen, since one is made in every superstep."""

    branch_key: BranchKey
    expected: CheckpointId | None
    """The head that the branch must have, or the commit is refused."""
    parent_id: CheckpointId | None
    """The parent checkpoint: the head, except for a fork."""
    checkpoint: Checkpoint
    deltas: Mapping[str, Any] | None
    """For each channel that differs from the parent: its new value, a smaller change that leads to it (see
    `channels/delta.py`), or MISSING if it was removed. None if all values are to be stored."""
    source: Source
    run_id: str
    created_at: datetime
    reported: Any = None
    """The change of `Checkpoint.reported` as a delta; None if there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: Pending | None = None
    """Initial data about the new frontier: a fork copies results and answers."""
    hold: LeaseRequest | None = None
    """The lease request of the run; None if it holds no thread."""
    log: Log | None = None
    """Entries for the log of the run; the saver numbers them."""
    dropped_namespaces: tuple[str, ...] = ()
    """Namespaces of subgraph calls whose tasks this commit consumes; they are deleted on its branch."""
    siblings: tuple[Commit, ...] = ()
    """Commits of other branches of the thread, saved atomically with this one: calls that a fork copies."""
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

    branch_key: BranchKey
    parent_id: CheckpointId | None
    checkpoint: Checkpoint
    source: Source
    run_id: str
    created_at: datetime
    metadata: Mapping[str, Any]
    pending: Pending
    graph_version: str | None = None
    epoch: int | None = field(default=None, compare=False)
    """The epoch of the thread when the checkpoint was loaded (see `lease.py`); None in a history."""
    lease: Lease | None = field(default=None, compare=False)
    """The lease on the thread when the checkpoint was loaded."""

    @property
    def id(self) -> CheckpointId:
        return CheckpointId(self.checkpoint.id)
