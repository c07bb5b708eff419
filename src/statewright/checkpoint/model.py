"""The data model of threads: checkpoints, due tasks, saved results and open questions.

`Checkpoint`, `Task` and `TaskResult` are created in every superstep. They are treated as immutable, but are slotted
classes rather than frozen dataclasses, which are slower to create. `Commit` and `SavedCheckpoint` contain the data that
only savers need. Leases are in `lease.py`.
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
        return "NO_ARG"  # so that copying and unpickling return the same object


NO_ARG: Final[Any] = _NoArg()
"""The argument of a task that has none, because its input is read from the state."""
register_codec(47, _NoArg, lambda _: None, lambda _: NO_ARG)

Source = Literal["input", "loop", "update", "fork"]
"""The origin of a checkpoint: the input of a run, a superstep (`loop`), `update_state`, or a fork."""

Values = dict[str, Any]
"""The state: values by channel."""


class Task:
    """One execution of one node, due in one superstep."""

    __slots__ = ("arg", "node", "origin", "position")

    def __init__(self, node: str, arg: Any, origin: str, position: int) -> None:
        self.node = node
        self.arg = arg
        """The argument of a Send; NO_ARG if the input is read from the state."""
        self.origin = origin
        """The id of the checkpoint whose commit made the task due."""
        self.position = position
        """The position among the tasks that this commit made due, from 0."""

    @property
    def id(self) -> TaskId:
        """The id, which is the same after a fork, a copy or an update of the thread.

        It is computed on access, because the ids of most tasks are never needed.
        """
        return task_id(self.origin, self.position)

    @property
    def planned_id(self) -> TaskId:
        """The id of the task that a superstep scheduled: this task, or its outermost caller. Logs contain these ids."""
        return task_id(self.origin, self.position)

    @property
    def caller(self) -> Task | None:
        """The task that called this one, if it is a step or a `@task` call; None if a superstep scheduled it."""
        return None

    def __repr__(self) -> str:
        arg = "" if self.arg is NO_ARG else f", {self.arg!r}"
        return f"Task({self.node!r}{arg})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task) or type(self) is not type(other):
            return NotImplemented
        names = [name for cls in type(self).__mro__ for name in getattr(cls, "__slots__", ())]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __hash__(self) -> int:
        return hash((self.node, self.origin, self.position))


class TimeLimit(NamedTuple):
    """The timeout of a Send. None means that there is no limit."""

    run: float | None
    """The maximum duration of an attempt, in seconds."""
    idle: float | None
    """The maximum time without a heartbeat, in seconds."""
    heartbeat_only: bool
    """True if only explicit heartbeats count."""


class TimedTask(Task):
    """A task whose Send has a timeout. It is a class of its own so that other tasks need no slot for it."""

    __slots__ = ("timeout",)

    def __init__(self, node: str, arg: Any, origin: str, position: int, timeout: TimeLimit) -> None:
        super().__init__(node, arg, origin, position)
        self.timeout = timeout


class DeferredTask:
    """A due task that is deferred until no other task can reach its node."""

    __slots__ = ("gather", "sender", "task")

    def __init__(self, task: Task, *, gather: bool = False, sender: str = "") -> None:
        self.task = task
        self.gather = gather
        """True if it comes from a Send with `gather=True`, so that it becomes one task with the other such Sends to its
        node."""
        self.sender = sender
        """The node that returned the Send. Gathered arguments are in the order in which their senders were declared."""

    def __repr__(self) -> str:
        return f"DeferredTask({self.task!r}{', gather=True' if self.gather else ''})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeferredTask):
            return NotImplemented
        return (self.task, self.gather, self.sender) == (other.task, other.gather, other.sender)

    def __hash__(self) -> int:
        return hash(self.task)


Joins = Mapping[str, frozenset[str]]
"""The starts that have already run, by the key of the incomplete join edge."""
NO_JOINS: Final[Joins] = {}


class Checkpoint:
    """The state of a thread after a superstep: everything that the next superstep depends on."""

    __slots__ = ("deferred", "frontier", "id", "joins", "reported", "step", "values")

    def __init__(
        self,
        id: str,  # noqa: A002  # the usual name
        step: int,
        values: Values,
        frontier: tuple[Task, ...],
        deferred: tuple[DeferredTask, ...] = (),
        joins: Joins = NO_JOINS,
        reported: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.id = id
        self.step = step
        """The number of the superstep, which is the number of commits before this checkpoint's."""
        self.values = values
        self.frontier = frontier
        """The tasks of the next superstep, in the order in which their writes will be applied."""
        self.deferred = deferred
        self.joins = joins
        self.reported = reported
        """In a subgraph: the `(field, update)` pairs of its tasks for fields with reducers, which the caller applies to
        its own state."""

    @property
    def is_complete(self) -> bool:
        """True if no task is due or deferred."""
        return not self.frontier and not self.deferred

    def __repr__(self) -> str:
        tasks = f"frontier={self.frontier!r}, deferred={self.deferred!r}"
        return f"Checkpoint(step={self.step}, values={self.values!r}, {tasks})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # pyright: ignore  # contains a dict


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
        """A dict if each channel is written once, which is nearly always so; otherwise pairs, in order."""
        self.targets = targets
        """The names of nodes, and Sends."""
        self.goto = goto
        """True if the targets replace the edges of the node."""
        self.folded = folded
        """The state with the writes of this task alone, if a conditional edge has needed it. It is never saved."""

    def __repr__(self) -> str:
        return f"TaskResult({self.task!r}, {self.writes!r}, {list(self.targets)!r})"


InterruptKind = Literal["question", "timer", "event"]
"""The condition for which a pause waits: an answer, a time, or an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt:
    """A pause of one task until an answer, a time or an event arrives."""

    id: InterruptId
    """The id, which is the same whenever the node is executed again."""
    value: Any
    """The question for the person or program that answers."""
    kind: InterruptKind = "question"
    schema: Any = None
    """The type that the answer must have; None if the node did not specify one."""
    event: str | None = None
    """The name of the event for which it waits."""
    due_at: datetime | None = None
    """The time at which a timer fires, or at which the wait for an answer or event ends."""
    key: str | None = None
    """The key that distinguishes it from other questions of its task; None if the node did not specify one."""
    namespace: str = ""
    """The path of tasks to the subgraph that asks; empty for a question of the run's own graph."""
    schema_form: str | None = field(default=None, repr=False, compare=False)
    """The schema as text. It is compared when the task asks again, because not every type can be stored."""

    def shown(self) -> Interrupt:
        """Return the question with a copy of its value, which the receiver may modify."""
        value = copy_container(self.value)
        return self if value is self.value else replace(self, value=value)


JournalKey = tuple[TaskId, str, int]
"""The task, the name of the step, and the number of calls with this name that the task made before."""


def step_id(key: JournalKey) -> TaskId:
    """Return the task id of a step or a `@task` call, derived from its journal key."""
    task_id, name, ordinal = key
    return TaskId(f"{task_id}:{name}.{ordinal}")


def outermost_task_id(task_id: str) -> str:
    """Return the id of the task that a superstep scheduled, from its own id or the id of a step or `@task` call."""
    return task_id.partition(":")[0]


class JournalEntry(NamedTuple):
    """The saved result of a step."""

    arguments: str
    """A fingerprint of the arguments."""
    value: Any
    """The result."""


@dataclass(slots=True)
class Pending:
    """Results of tasks in a checkpoint's frontier, and other data about them, that are saved before the next commit."""

    completed: dict[TaskId, TaskResult] = field(default_factory=dict[TaskId, TaskResult])
    interrupts: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    answers: dict[InterruptId, Any] = field(default_factory=dict[InterruptId, Any])
    errors: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    """The message of the last error, by task."""
    attempts: dict[TaskId, int] = field(default_factory=dict[TaskId, int])
    """The number of failed attempts so far, by task."""
    retries: dict[TaskId, datetime] = field(default_factory=dict[TaskId, datetime])
    """The time of the next attempt, by task."""
    journal: dict[JournalKey, JournalEntry] = field(default_factory=dict[JournalKey, JournalEntry])
    """The saved results of steps."""
    paused: bool = False
    """True if a run has stopped at a breakpoint before these tasks. The next run does not stop there again."""
    settled: dict[TaskId, tuple[Interrupt, ...]] = field(default_factory=dict[TaskId, tuple[Interrupt, ...]])
    """Questions that were answered, after which the task asked the questions in `interrupts`; by task."""

    @property
    def open(self) -> tuple[Interrupt, ...]:
        """All questions without an answer, in task order."""
        return tuple(question for task in self.interrupts for question in self.open_of(task))

    def open_of(self, task: TaskId) -> tuple[Interrupt, ...]:
        """Return the questions of a task that have no answer; none if the task is completed."""
        if task in self.completed:
            return ()
        return tuple(question for question in self.interrupts.get(task, ()) if question.id not in self.answers)

    def waits(self, task: TaskId) -> bool:
        """Return whether a task cannot run yet, because one of its questions has no answer.

        If the questions were asked in a subgraph, one answer is enough: the subgraph is called again, and determines
        itself which of its tasks are still waiting.
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
        """Return the data for a fork of this checkpoint: the results, and the answers to earlier questions.

        The last questions of each task are asked again. The answers to its earlier questions are kept, so that the task
        reaches the last questions when it is executed again.
        """
        earlier = {question.id for questions in self.settled.values() for question in questions}
        earlier -= {question.id for questions in self.interrupts.values() for question in questions}
        return Pending(
            completed=dict(self.completed),
            interrupts=dict(self.interrupts),
            answers={question: answer for question, answer in self.answers.items() if question in earlier},
            journal=dict(self.journal),
            paused=self.paused,
            settled=dict(self.settled),
        )

    def merged(self, later: Pending) -> Pending:
        """Return the union of this data and later data. Later data takes precedence."""
        return Pending(
            {**self.completed, **later.completed},
            {**self.interrupts, **later.interrupts},
            {**self.answers, **later.answers},
            {**self.errors, **later.errors},
            {**self.attempts, **later.attempts},
            {**self.retries, **later.retries},
            {**self.journal, **later.journal},
            self.paused or later.paused,
            _merge_questions(self.settled, later.settled) if later.settled else self.settled,
        )

    def of(self, tasks: Collection[TaskId]) -> Pending:
        """Return the data of these tasks only, with all answers."""
        return Pending(
            {task: result for task, result in self.completed.items() if task in tasks},
            {task: questions for task, questions in self.interrupts.items() if task in tasks},
            dict(self.answers),
            {task: error for task, error in self.errors.items() if task in tasks},
            {task: count for task, count in self.attempts.items() if task in tasks},
            {task: at for task, at in self.retries.items() if task in tasks},
            {key: entry for key, entry in self.journal.items() if outermost_task_id(key[0]) in tasks},
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


def _merge_questions(
    earlier: dict[TaskId, tuple[Interrupt, ...]], later: dict[TaskId, tuple[Interrupt, ...]]
) -> dict[TaskId, tuple[Interrupt, ...]]:
    """Return earlier and later questions by task. A question that was asked again is only among the later ones."""
    merged = dict(earlier)
    for task, questions in later.items():
        ids = {question.id for question in questions}
        merged[task] = (*(question for question in earlier.get(task, ()) if question.id not in ids), *questions)
    return merged


class BranchKey(NamedTuple):
    """Identifies a branch: the thread, the namespace, and the name of the branch. Each branch has one head."""

    thread_id: str
    namespace: str = ""
    """Empty for the run's own graph; for a subgraph, the `node:task_id` of each calling task, joined by `|`."""
    branch: str = "main"


@dataclass(kw_only=True, slots=True)
class Commit:
    """Everything that one superstep saves, which is written atomically.

    It is treated as immutable, but not frozen, because frozen dataclasses are slower to create.
    """

    branch_key: BranchKey
    expected: CheckpointId | None
    """The checkpoint that must be the head of the branch, or the commit is refused; None if the branch must be new."""
    parent_id: CheckpointId | None
    """The parent checkpoint, which is the head of the branch unless the commit is a fork."""
    checkpoint: Checkpoint
    deltas: Mapping[str, Any] | None
    """The changes since the parent, by channel: the new value, a smaller change that results in it (see
    `channels/delta.py`), or MISSING if the channel was removed. None if all values are to be stored."""
    source: Source
    run_id: str
    created_at: datetime
    reported: Any = None
    """The change of `Checkpoint.reported` since the parent, as a delta; None if there is none."""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: Pending | None = None
    """Initial data about the tasks of the new frontier. A fork copies results and answers."""
    hold: LeaseRequest | None = None
    """The lease request of the run; None if the write is not made by a run that holds the thread."""
    log: Log | None = None
    """New entries for the event log of the run. The saver numbers them."""
    dropped_namespaces: tuple[str, ...] = ()
    """Namespaces to delete on this branch, because the tasks that called these subgraphs are completed."""
    siblings: tuple[Commit, ...] = ()
    """Commits to other namespaces or branches of the thread that are saved in the same transaction. They are siblings
    in the transaction, not in the tree of calls: a fork copies the calls of nested subgraphs in this way."""
    graph_version: str | None = None
    """The version of the graph that produced the checkpoint."""
    overlaps: bool = False
    """True if the run continues before the commit is saved, so the saver should return a future."""
    size: int | None = None
    """The number of bytes written; None unless the saver sets it."""

    @property
    def results(self) -> Sequence[TaskResult]:
        """The results of tasks that are applied in this checkpoint, if they are known."""
        return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedCheckpoint:
    """A saved checkpoint, with the results of its frontier's tasks that have been saved since."""

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
