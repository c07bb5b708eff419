"""One invocation of a graph: its options and services, and the state that it has between supersteps.

The parts of a run have different lifetimes. `RunConfig` and `RunPorts` never change, and runs with equal options share
them. `SubgraphCall` is what a subgraph knows of the task that called it. Answers, limits and the control belong to the
whole tree of calls. Everything else belongs to one run, and changes while it runs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from statewright.checkpoint import (
    BranchKey,
    Checkpoint,
    Checkpointer,
    Interrupt,
    JournalEntry,
    JournalKey,
    LeaseRequest,
    Pending,
    Task,
)
from statewright.errors import RunError
from statewright.events import Entry, Event, Log
from statewright.futures import AnyFuture
from statewright.graph import Memory
from statewright.ids import TaskId
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.config import Settings
from statewright.runtime.core.program import Program
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.claim import Claim
from statewright.runtime.invocation.emitter import EventEmitter, StreamBuffer
from statewright.runtime.invocation.limits import Slots, Spending
from statewright.runtime.invocation.open_calls import OpenCalls
from statewright.runtime.invocation.outcome import RunOutcome
from statewright.runtime.invocation.run_config import RunConfig, RunPorts

LEASE: Final = timedelta(seconds=60)
"""Default lease duration: how long a run holds its thread after a write. Renewed every third of it while nodes run."""
SIBLING_GRACE: Final = 30.0
"""Default grace period: seconds to wait for running plain functions after a sibling has failed."""
NONE_CLOSED: Final = -2
"""Stands for the last closed superstep before the first one: lower than every step."""
ALL_CLOSED: Final = sys.maxsize
"""Stands for the last closed superstep once the run has ended: higher than every step."""
NO_INTERRUPTS: Mapping[str, Interrupt] = {}
NO_ATTEMPTS: Mapping[TaskId, int] = {}
NO_RETRIES: Mapping[TaskId, datetime] = {}
NO_METADATA: Mapping[str, Any] = {}
_noting: Final = threading.Lock()


class SavedQuestions(NamedTuple):
    """The questions that the due tasks had asked before this run."""

    last: Mapping[TaskId, tuple[Interrupt, ...]]
    """The questions of its last pause, by task."""
    by_task: Mapping[TaskId, tuple[Interrupt, ...]]
    """All of its questions, answered ones included, by task."""
    by_id: Mapping[str, Interrupt]
    """All of their questions, by question id."""


NO_QUESTIONS: Final = SavedQuestions({}, {}, {})


class CallingTask(Protocol):
    """The task of another run that has called a subgraph; a `tasks.scope.Scope`."""

    run: Run
    task: Task | None
    checkpoint: Checkpoint | None
    attempt: Attempt | None
    refusals: dict[TaskId, RunError]
    """The errors that tasks received because their run is over, by task id: see `liveness.note_refusal`."""

    @property
    def abandoned(self) -> bool: ...

    def counts(self) -> Retryable: ...


class Retryable(Protocol):
    """The part of a task's counters that concerns calls which can be retried."""

    @property
    def retryable(self) -> dict[tuple[object, ...], bool]: ...


class OpenSuperstep(Protocol):
    """Several tasks that run concurrently; a `concurrency.superstep.Superstep`."""

    checkpoint: Checkpoint
    ending: bool
    closed: bool

    def close_and_notify(self) -> None: ...

    def on_call_ended(self) -> None: ...

    def on_end(self, callback: Callable[[], object]) -> AbstractContextManager[None]: ...


class SubgraphCall:
    """The call of a subgraph by a task, as seen by the run of the subgraph."""

    __slots__ = ("former_namespaces", "is_retry", "memory", "namespace", "retry_key", "scope", "takes_state")

    def __init__(
        self,
        scope: CallingTask,
        memory: Memory,
        namespace: str,
        *,
        retry_key: tuple[object, ...] | None = None,
        is_retry: bool = False,
    ) -> None:
        self.scope = scope
        """The scope of the calling task at the time of the call."""
        self.memory: Memory = memory
        self.namespace = namespace
        self.retry_key = retry_key
        """Equal for a call and its retries; None for a call without a `call_key`, which cannot be retried in place."""
        self.is_retry = is_retry
        """True if the call retries a failed one: it starts over in the same namespace."""
        self.takes_state = False
        """True if the subgraph is itself a node of the calling graph, so that its argument is a state, not an input."""
        self.former_namespaces: tuple[str, ...] = ()
        """The namespaces of the call under former names of the calling node, in which it may have been saved."""

    def metadata(self, *, remembers: bool) -> Mapping[str, Any]:
        """Return the metadata of each commit of the call."""
        task = self.scope.task
        parent = {"parent_task": task.id if task is not None else ""}
        return {**parent, "remembers": True} if remembers else parent


class Run:
    """One attempt to advance a thread, or a state without a thread, until nothing is due."""

    __slots__ = (
        "answers",
        "attempts",
        "branch_key",
        "call",
        "caller",
        "calls",
        "claim",
        "claimed",
        "closed_step",
        "config",
        "control",
        "delivered",
        "emitter",
        "ended_calls",
        "guards_all",
        "held_until",
        "hold_lost",
        "in_flight_commit",
        "journal",
        "known_interrupts",
        "live",
        "log_buffer",
        "memories",
        "metadata",
        "migrated",
        "namespace",
        "nested",
        "open_namespaces",
        "outcome",
        "overlaps",
        "owner",
        "parent",
        "ports",
        "program",
        "questions",
        "reader",
        "refusals",
        "remembers",
        "retries",
        "rewritten",
        "run_id",
        "running_steps",
        "saver",
        "saves_on_exit",
        "settings",
        "shipments",
        "slots",
        "spent",
        "step_before",
        "stop",
        "superstep",
        "uncommitted_from",
        "unfinished_joins",
        "unpublished_events",
    )

    def __init__(
        self,
        program: Program,
        settings: Settings,
        config: RunConfig,
        ports: RunPorts,
        *,
        run_id: str,
        saver: Checkpointer | None = None,
        branch_key: BranchKey | None = None,
        owner: str | None = None,
        claim: Claim | None = None,
        emitter: EventEmitter | None = None,
        control: RunControl | None = None,
        answers: dict[str, Any] | None = None,
        namespace: str = "",
        call: SubgraphCall | None = None,
        live: dict[str, CallingTask] | None = None,
        spent: Spending | None = None,
        slots: tuple[Slots, ...] = (),
    ) -> None:
        # The program, options and services of the run.
        self.program = program
        self.settings = settings
        self.config = config
        self.ports = ports
        self.run_id = run_id
        self.saver = saver
        self.branch_key = branch_key
        """The branch that the run advances; None if nothing is saved."""
        self.saves_on_exit = config.durability == "exit"
        """True if supersteps are saved only when the run stops: durability `exit`."""
        self.overlaps = config.durability == "async"
        """True if a superstep may begin before the last one is saved: durability `async`."""
        self.emitter = emitter
        """The emitter of events; None if there are no listeners."""
        self.reader: StreamBuffer | None = emitter.buffer if emitter is not None and call is None else None
        """Stream parts that the reader has not taken yet; None without a reader, and in subgraphs."""

        # The calling task, if this is the run of a subgraph.
        self.call = call
        """The subgraph call that this run executes; None at the root."""
        self.nested = call is not None
        self.parent = call.scope if call is not None else None
        """The calling task; None at the root."""
        self.caller = self.parent if branch_key is not None else None
        """The calling task, if this run saves checkpoints in its thread; None otherwise."""
        self.namespace = namespace if call is None else call.namespace
        """The path of tasks that leads to a subgraph; empty at the root."""
        self.remembers = call is not None and call.memory == "thread" and branch_key is not None
        """True for the call of a subgraph with memory="thread", if it saves checkpoints."""
        self.metadata: Mapping[str, Any] = NO_METADATA if call is None else call.metadata(remembers=self.remembers)
        """Metadata saved with each commit."""

        # Shared by all runs of the tree of calls.
        self.control = control
        self.answers: dict[str, Any] = {} if answers is None else answers
        """The answers to questions of tasks that are still due, by interrupt id."""
        self.live: dict[str, CallingTask] = {} if live is None else live
        """The calling task of each running call with memory="thread", by namespace."""
        self.spent = spent
        """The amounts counted against the budget; None if nothing is counted."""
        self.slots = slots
        """The limits on concurrency."""
        self.guards_all = bool(slots)
        """True if all tasks need the checks of limits and timeouts: the run has limits, or Sends with a timeout."""

        # The lease on the thread.
        self.owner = owner
        """The name under which the run holds its thread; None if nothing is saved."""
        self.claim = claim
        """The claim of the run on its thread; None if nothing is saved."""
        self.claimed = False
        """True while the run holds its thread."""
        self.held_until: datetime | None = None
        """The end of its lease, as of its last write."""
        self.hold_lost = False
        """True once a write or renewal has shown that another run has taken over the thread."""

        # Saved by earlier runs for the tasks that are due.
        self.known_interrupts: Mapping[str, Interrupt] = NO_INTERRUPTS
        """The questions of the due tasks that were open when this run began, by id."""
        self.questions = NO_QUESTIONS
        """All questions of the due tasks, answered ones included: those that are asked again are compared to them."""
        self.delivered: set[str] = set()
        """The ids of questions that match one of these, and have received its answer."""
        self.attempts: Mapping[TaskId, int] = NO_ATTEMPTS
        """The number of failures before this run, by task."""
        self.retries: Mapping[TaskId, datetime] = NO_RETRIES
        """The time of the next attempt after a failure before this run, by task."""
        self.journal: dict[JournalKey, JournalEntry] = {}
        """The results of `runtime.step` and `@task` calls of the current superstep."""
        self.migrated: Mapping[str, Any] | None = None
        """The state before a migration of the graph, until the migrated state is saved."""
        self.memories: dict[str, str] = {}
        """The id of the last known checkpoint of each subgraph with memory="thread", by namespace."""
        self.open_namespaces: set[str] = set()
        """The namespaces of subgraph calls whose tasks have not ended: the commit that ends a task deletes them."""

        # The superstep that runs now.
        self.stop = 0
        """The step at which the recursion limit is reached."""
        self.step_before = -1
        """The number of the step before the first. A retried call continues the count, so that its task ids are new."""
        self.superstep: OpenSuperstep | None = None
        """The tasks that run concurrently now; None while at most one runs."""
        self.closed_step = NONE_CLOSED
        """The step of the last checkpoint whose tasks are over: their later effects are ignored."""
        self.calls: OpenCalls | None = None
        """The running calls of `@task` functions; None until the first one."""
        self.running_steps: dict[JournalKey, Attempt] = {}
        """The attempt that started each running `runtime.step` last, for tasks with retry or timeout policies."""
        self.refusals: dict[TaskId, RunError] = {}
        """The errors that tasks received because the run is over, by task: see `liveness.note_refusal`."""

        self.shipments: Mapping[Any, Any] | None = None
        """What this superstep has shared with workers in other processes, by executor: see `tasks/remote_node`."""

        # Not saved yet.
        self.in_flight_commit: AnyFuture[Any] | None = None
        """The commit that is being saved while the run continues."""
        self.uncommitted_from: Checkpoint | None = None
        """The last saved checkpoint, if the run has advanced since."""
        self.rewritten: set[str] = set()
        """The fields written since then, except lists that have only grown."""
        self.ended_calls: dict[str, CallingTask] = {}
        """The calls of this superstep that have ended without saving their end, by namespace.

        It is saved only if their tasks have no result, and so will be executed again.
        """
        self.log_buffer: tuple[Entry, ...] = ()
        """Log entries of tasks of this superstep, written with the next save."""
        self.unpublished_events: dict[TaskId, Event] = {}
        """The events of tasks whose results are not saved yet, with durability `sync`."""

        # The end.
        self.outcome: RunOutcome | None = None
        """The outcome of the run; None until it is idle."""
        self.unfinished_joins: tuple[str, ...] = ()
        """The incomplete join edges with their missing sources, once the run has ended."""

    def recall_questions(self, pending: Pending) -> None:
        """Restore the saved questions of the due tasks."""
        by_task = pending.questions()
        by_id = {question.id: question for questions in by_task.values() for question in questions}
        self.questions = SavedQuestions(pending.interrupts, by_task, {**self.questions.by_id, **by_id})
        self.known_interrupts = {
            **self.known_interrupts,
            **{question.id: question for questions in pending.interrupts.values() for question in questions},
        }

    def inherit_questions(self, caller: Run, task: Task) -> None:
        """Take over the questions of the calling task from its run: a call that saves nothing cannot load them."""
        by_id: dict[str, Interrupt] = {question.id: question for question in caller.questions_of(task)}
        self.known_interrupts = {key: question for key, question in by_id.items() if key in caller.known_interrupts}
        self.questions = SavedQuestions({}, {}, by_id)

    def questions_of(self, task: Task) -> Iterable[Interrupt]:
        """Return the questions that a task and its calls have asked before."""
        if self.branch_key is None and self.nested:
            return self.questions.by_id.values()
        return self.questions.by_task.get(task.planned_id, ())

    def settled_by(self, task: TaskId, asks: Iterable[Interrupt]) -> tuple[Interrupt, ...]:
        """Return the questions of a task's last pause that were answered, and are not among those that it asks now."""
        open_ids = {question.id for question in asks}
        last = self.questions.last.get(task, ())
        return tuple(question for question in last if question.id in self.answers and question.id not in open_ids)

    @property
    def root(self) -> Run:
        """The outermost run of the tree of calls."""
        return self if self.parent is None else self.parent.run.root

    @property
    def shares_journal(self) -> bool:
        """True for a nested run without a saver, whose steps go into the journal of its caller."""
        return self.nested and self.branch_key is None

    @property
    def emits_after_commit(self) -> bool:
        """True if results are published only after they have been saved: durability `sync`."""
        return self.saver is not None and not self.overlaps and not self.saves_on_exit

    def publish_finished(self, tasks: Iterable[TaskId]) -> None:
        """Emit the events of tasks whose results have been saved."""
        for task in tasks:
            event = self.unpublished_events.pop(task, None)
            if event is not None and self.emitter is not None:
                self.emitter.emit(event)

    def log(self, entry: Entry) -> None:
        """Add an entry to the log buffer. May be called by concurrent tasks."""
        with _noting:
            self.log_buffer = (*self.log_buffer, entry)

    def take_log_entries(self, task: TaskId | None = None) -> tuple[Entry, ...]:
        """Remove and return the buffered log entries of one task, or of all."""
        with _noting:
            if task is None:
                entries, self.log_buffer = self.log_buffer, ()
            else:
                entries = tuple(entry for entry in self.log_buffer if entry[3] == task)
                self.log_buffer = tuple(entry for entry in self.log_buffer if entry[3] != task)
        return entries

    def restore_log_entries(self, log: Log | None) -> None:
        """Return log entries to the buffer, since the write that contained them was refused."""
        if log is not None:
            with _noting:
                self.log_buffer = (*log.entries, *self.log_buffer)

    @property
    def spending(self) -> Spending:
        """The amounts spent by the tree of calls, counted from the first access."""
        if self.spent is None:
            self.spent = Spending(self.ports.clock)
        return self.spent

    def hold(self, now: datetime, *, release: bool = False, may_claim: bool = False) -> LeaseRequest | None:
        """Return the lease request for a write at `now`; None if the run saves nothing.

        `release` ends the lease, unless this is the run of a subgraph, whose caller continues. Only writes of the core
        pass `may_claim`: a late write by a node or a timer must not claim the thread again after the run has ended.
        """
        if self.owner is None:
            return None
        claim = self.claim
        until = None if release and not self.nested else now + self.lease_duration
        if not may_claim or self.claimed or self.nested:
            return LeaseRequest(self.owner, now, until)
        if claim is None:
            return LeaseRequest(self.owner, now, until, claims=True)
        claim.is_in_doubt = True
        return LeaseRequest(self.owner, now, until, claims=True, expected_epoch=claim.expected_epoch)

    @property
    def lease_duration(self) -> timedelta:
        """The lease duration after each write."""
        duration = self.claim.lease_duration if self.claim is not None else None
        return LEASE if duration is None else duration

    def move_to(self, namespace: str) -> None:
        """Continue in a former namespace of this call, in which it was saved before its node was renamed."""
        assert self.branch_key is not None
        caller = self.caller
        if self.parent is not None and self.live.get(self.namespace) is self.parent:
            self.live[namespace] = self.live.pop(self.namespace)
        if caller is not None and self.namespace in caller.run.open_namespaces:
            caller.run.open_namespaces.discard(self.namespace)
            caller.run.open_namespaces.add(namespace)
        self.namespace, self.branch_key = namespace, self.branch_key._replace(namespace=namespace)

    def record_hold(self, hold: LeaseRequest | None) -> None:
        """Record that a write with this lease request has succeeded."""
        if hold is not None:
            self.claimed = hold.until is not None
            if self.claim is not None:
                self.claim.is_in_doubt, self.claim.is_made = False, True
            self.held_until = hold.until

    def commit_failed(self) -> None:
        """Record that a commit failed while the run continued: the lease that it was to release remains."""
        self.claimed = self.owner is not None

    def lose_hold(self) -> None:
        """Record that another run has taken over the thread, and close a superstep that is ending."""
        self.hold_lost = True
        step = self.superstep
        if step is not None and step.ending:
            step.close_and_notify()

    def unsaved_id(self, step: int) -> str:
        """Return an id for a commit that is never saved, and so need only be unique within the run."""
        return f"{self.run_id}.{step}"

    def origin(self, commit_id: str, step: int) -> str:
        """Return the value from which the ids of the tasks that a commit makes due are derived.

        At the root it is the id of the commit. A subgraph that is called again for the same task must ask the same
        questions, though its commits have new ids, so there the value depends on the namespace and the step. If the
        subgraph saves nothing, it depends on the calling task instead of the thread and the full namespace, since the
        thread may be a copy, and the node may have been renamed.
        """
        if not self.nested:
            return commit_id
        if self.branch_key is not None:
            return f"{self.settings.thread_id}|{self.namespace}#{step}"
        caller = self.metadata.get("parent_task", "")
        return f"{caller}|{self.namespace.rpartition(f':{caller}')[2]}#{step}"

    def node_config(self) -> Mapping[str, Any]:
        """Return the `config` argument of nodes."""
        return self.settings.as_config(self.namespace, self.run_id)
