"""One invocation of a graph: its options, its services, and its state while it is running.

The parts of a run have different lifetimes. `RunConfig` and `RunPorts` never change, and runs with equal options share
them. `SubgraphCall` is what the run of a subgraph knows about the task that called it. Answers, limits and the control
are shared by the whole tree of calls: a run and the runs of all subgraphs below it. Everything else belongs to one run,
and changes while it is running.
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
"""Default lease duration: how long a run holds its thread after a write. While nodes are running, the lease is renewed
after each third of this time."""
SIBLING_GRACE: Final = 30.0
"""Default grace period: seconds to wait for running plain functions after a sibling has failed."""
NONE_CLOSED: Final = -2
"""The value of `Run.closed_step` before any superstep has closed: lower than every step."""
ALL_CLOSED: Final = sys.maxsize
"""The value of `Run.closed_step` once the run has ended: higher than every step."""
NO_INTERRUPTS: Mapping[str, Interrupt] = {}
NO_ATTEMPTS: Mapping[TaskId, int] = {}
NO_RETRIES: Mapping[TaskId, datetime] = {}
NO_METADATA: Mapping[str, Any] = {}
_log_lock: Final = threading.Lock()
"""Guards the log buffers of all runs: tasks on several threads add entries to one buffer."""


class SavedQuestions(NamedTuple):
    """The questions that the due tasks had asked before this run."""

    last: Mapping[TaskId, tuple[Interrupt, ...]]
    """By task: the questions with which the task paused last."""
    by_task: Mapping[TaskId, tuple[Interrupt, ...]]
    """By task: all questions that the task has asked, including answered ones."""
    by_id: Mapping[str, Interrupt]
    """The same questions of all tasks, by question id."""


NO_QUESTIONS: Final = SavedQuestions({}, {}, {})


class CallingTask(Protocol):
    """The task that has called a subgraph. It belongs to another run. Implemented by `tasks.scope.Scope`."""

    run: Run
    task: Task | None
    checkpoint: Checkpoint | None
    attempt: Attempt | None
    refusals: dict[TaskId, RunError]
    """By task id: the error that a task received because its run is over. See `liveness.note_refusal`."""

    @property
    def abandoned(self) -> bool: ...

    def numbering(self) -> RetryableCalls: ...


class RetryableCalls(Protocol):
    """The part of a task's numbering of calls that records which of its subgraph calls may be retried."""

    @property
    def starts_over(self) -> dict[tuple[object, ...], bool]: ...


class OpenSuperstep(Protocol):
    """A superstep whose tasks are running concurrently. Implemented by `concurrency.superstep.Superstep`."""

    checkpoint: Checkpoint
    ending: bool
    closed: bool

    def close_and_notify(self) -> None: ...

    def on_call_ended(self) -> None: ...

    def on_end(self, callback: Callable[[], object]) -> AbstractContextManager[None]: ...


class SubgraphCall:
    """A task's call of a subgraph, as the run of the subgraph sees it."""

    __slots__ = ("argument_is_state", "former_namespaces", "is_retry", "memory", "namespace", "retry_key", "scope")

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
        """A key that a call and its retries share; None for a call without a `call_key`, which cannot be retried in the
        same namespace."""
        self.is_retry = is_retry
        """True if this call retries a call that has failed: it starts over in the same namespace."""
        self.argument_is_state = False
        """True if the subgraph is itself a node of the calling graph: its argument is then the caller's state."""
        self.former_namespaces: tuple[str, ...] = ()
        """The namespaces in which the call may have been saved before the calling node was renamed."""

    def metadata(self, *, remembers: bool) -> Mapping[str, Any]:
        """Return the metadata that each commit of the call contains."""
        task = self.scope.task
        parent = {"parent_task": task.id if task is not None else ""}
        return {**parent, "remembers": True} if remembers else parent


class Run:
    """One attempt to advance a thread, or a state that is not saved, until no task is due."""

    __slots__ = (
        "all_tasks_need_attempts",
        "answers",
        "attempts",
        "branch_key",
        "call",
        "caller",
        "claim",
        "closed_step",
        "config",
        "control",
        "emitter",
        "ended_calls",
        "has_lost_thread",
        "holds_thread",
        "in_flight_commit",
        "journal",
        "known_interrupts",
        "lease_expires_at",
        "log_buffer",
        "matched_questions",
        "memories",
        "metadata",
        "namespace",
        "nested",
        "open_calls",
        "open_namespaces",
        "outcome",
        "overlaps",
        "owner",
        "parent",
        "ports",
        "program",
        "questions",
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
        "spending_if_counted",
        "step_before",
        "step_limit",
        "stream_buffer",
        "superstep",
        "thread_memory_callers",
        "uncommitted_from",
        "unfinished_joins",
        "unpublished_events",
        "values_before_migration",
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
        thread_memory_callers: dict[str, CallingTask] | None = None,
        spending: Spending | None = None,
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
        """True if supersteps are saved only when the run stops (durability `exit`)."""
        self.overlaps = config.durability == "async"
        """True if a superstep may begin before the previous one is saved (durability `async`)."""
        self.emitter = emitter
        """Emits the events of the run; None if there are no listeners."""
        self.stream_buffer: StreamBuffer | None = emitter.buffer if emitter is not None and call is None else None
        """The stream parts that the reader has not taken yet; None if nothing reads the stream of this run."""

        # The calling task, if this is the run of a subgraph.
        self.call = call
        """The subgraph call that this run executes; None for a root run, which no task has called."""
        self.nested = call is not None
        """True for the run of a subgraph, False for a root run."""
        self.parent = call.scope if call is not None else None
        """The calling task; None for a root run."""
        self.caller = self.parent if branch_key is not None else None
        """The calling task if this run saves checkpoints, in the thread of that task; None otherwise."""
        self.namespace = namespace if call is None else call.namespace
        """The path of tasks that leads to a subgraph; empty for a root run."""
        self.remembers = call is not None and call.memory == "thread" and branch_key is not None
        """True for a call with memory="thread" that saves checkpoints."""
        self.metadata: Mapping[str, Any] = NO_METADATA if call is None else call.metadata(remembers=self.remembers)
        """Metadata saved with each commit."""

        # Shared by all runs of the tree of calls.
        self.control = control
        """Requests the run to stop; None if it cannot be requested to stop."""
        self.answers: dict[str, Any] = {} if answers is None else answers
        """The answers to questions of the tasks that are due, by interrupt id."""
        self.thread_memory_callers: dict[str, CallingTask] = (
            {} if thread_memory_callers is None else thread_memory_callers
        )
        """By namespace: the calling task of the running call with memory="thread"."""
        self.spending_if_counted = spending
        """The amounts that count against the budget; None if nothing has been counted yet. See `spending`."""
        self.slots = slots
        """The limits on concurrency that apply: `max_concurrency` of this run and of the runs around it, where it is
        set."""
        self.all_tasks_need_attempts = bool(slots)
        """True if even tasks without policies go through `tasks/retries`, because the run has limits on concurrency, or
        Sends with a timeout."""

        # The lease on the thread. The run of a subgraph uses the lease of the root run.
        self.owner = owner
        """The name under which the run holds its thread; None if nothing is saved."""
        self.claim = claim
        """The claim of the run on its thread; None if nothing is saved."""
        self.holds_thread = False
        """True while the run holds its thread."""
        self.lease_expires_at: datetime | None = None
        """The time at which the lease expires, according to the run's last write."""
        self.has_lost_thread = False
        """True once a write or renewal has shown that another run has taken over the thread."""

        # Saved by earlier runs for the tasks that are due.
        self.known_interrupts: Mapping[str, Interrupt] = NO_INTERRUPTS
        """By id: the questions of the due tasks that were open when this run began."""
        self.questions = NO_QUESTIONS
        """All questions that the due tasks asked before this run. Questions asked again are compared to them."""
        self.matched_questions: set[str] = set()
        """The ids of the questions that were asked again without a change, and have received their answers."""
        self.attempts: Mapping[TaskId, int] = NO_ATTEMPTS
        """By task: the number of attempts that failed in earlier runs."""
        self.retries: Mapping[TaskId, datetime] = NO_RETRIES
        """By task: the time of the next attempt, if an attempt failed in an earlier run."""
        self.journal: dict[JournalKey, JournalEntry] = {}
        """The results of `runtime.step` and `@task` calls that tasks of the current superstep have made."""
        self.values_before_migration: Mapping[str, Any] | None = None
        """The saved state, if it was migrated to this version of the graph and the result is not saved yet."""
        self.memories: dict[str, str] = {}
        """By namespace: the id of the last known checkpoint of a subgraph with memory="thread"."""
        self.open_namespaces: set[str] = set()
        """The namespaces of subgraph calls whose tasks have not ended. The commit that ends a task deletes them."""

        # The current superstep.
        self.step_limit = 0
        """The step at which the recursion limit is reached."""
        self.step_before = -1
        """The number before the first step. For a retried call it is the last step of the failed call, so that the task
        ids of the retry are new."""
        self.superstep: OpenSuperstep | None = None
        """The superstep whose tasks are running concurrently; None while at most one task is running."""
        self.closed_step = NONE_CLOSED
        """The step of the last checkpoint whose tasks are over. Later effects of these tasks are ignored."""
        self.open_calls: OpenCalls | None = None
        """The running calls of `@task` functions; None until there is a call."""
        self.running_steps: dict[JournalKey, Attempt] = {}
        """For each running `runtime.step` of a task with policies: the attempt that last started the step."""
        self.refusals: dict[TaskId, RunError] = {}
        """By task id: the error that a task received because the run is over. See `liveness.note_refusal`."""

        self.shipments: Mapping[Any, Any] | None = None
        """The data that this superstep has sent to workers in other processes, by executor: see `tasks/remote_node`."""

        # Not saved yet.
        self.in_flight_commit: AnyFuture[Any] | None = None
        """The commit that is being saved while the run continues."""
        self.uncommitted_from: Checkpoint | None = None
        """With durability `exit`: the last saved checkpoint, if the run has advanced since then."""
        self.rewritten: set[str] = set()
        """The fields written since then, except lists that have only grown."""
        self.ended_calls: dict[str, CallingTask] = {}
        """By namespace: a scope of each subgraph call that has ended in this superstep, and has not saved its end.

        The end is saved only if the calling task has no result, because only then will the task be executed again.
        """
        self.log_buffer: tuple[Entry, ...] = ()
        """Log entries of the current superstep, which will be written with the next save."""
        self.unpublished_events: dict[TaskId, Event] = {}
        """With durability `sync`: the `task_finished` events of tasks whose results are not saved yet."""

        # The end.
        self.outcome: RunOutcome | None = None
        """The outcome of the run; None until the run is idle."""
        self.unfinished_joins: tuple[str, ...] = ()
        """Descriptions of the join edges that are incomplete at the end of the run."""

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
        """Copy the questions of the calling task from its run, because a call that saves nothing cannot load them."""
        by_id: dict[str, Interrupt] = {question.id: question for question in caller.questions_of(task)}
        self.known_interrupts = {key: question for key, question in by_id.items() if key in caller.known_interrupts}
        self.questions = SavedQuestions({}, {}, by_id)

    def questions_of(self, task: Task) -> Iterable[Interrupt]:
        """Return the questions that a task and its calls asked before this run."""
        if self.branch_key is None and self.nested:
            return self.questions.by_id.values()
        return self.questions.by_task.get(task.planned_id, ())

    def settled_by(self, task: TaskId, questions: Iterable[Interrupt]) -> tuple[Interrupt, ...]:
        """Return the answered questions of a task's last pause, except those in `questions`, which it asks now."""
        open_ids = {question.id for question in questions}
        last = self.questions.last.get(task, ())
        return tuple(question for question in last if question.id in self.answers and question.id not in open_ids)

    @property
    def root(self) -> Run:
        """The outermost run of the tree of calls."""
        return self if self.parent is None else self.parent.run.root

    @property
    def shares_journal(self) -> bool:
        """True for the run of a subgraph that saves nothing: its steps are recorded in the journal of the caller."""
        return self.nested and self.branch_key is None

    @property
    def emits_after_commit(self) -> bool:
        """True if the results of tasks are published only after they have been saved (durability `sync`)."""
        return self.saver is not None and not self.overlaps and not self.saves_on_exit

    def publish_finished(self, tasks: Iterable[TaskId]) -> None:
        """Emit the events of tasks whose results have been saved."""
        for task in tasks:
            event = self.unpublished_events.pop(task, None)
            if event is not None and self.emitter is not None:
                self.emitter.emit(event)

    def log(self, entry: Entry) -> None:
        """Add an entry to the log buffer. May be called by concurrent tasks."""
        with _log_lock:
            self.log_buffer = (*self.log_buffer, entry)

    def take_log_entries(self, task: TaskId | None = None) -> tuple[Entry, ...]:
        """Remove and return the buffered log entries of one task; of all tasks if `task` is None."""
        with _log_lock:
            if task is None:
                entries, self.log_buffer = self.log_buffer, ()
            else:
                entries = tuple(entry for entry in self.log_buffer if entry[3] == task)
                self.log_buffer = tuple(entry for entry in self.log_buffer if entry[3] != task)
        return entries

    def restore_log_entries(self, log: Log | None) -> None:
        """Put log entries back into the buffer, because the write that contained them was refused."""
        if log is not None:
            with _log_lock:
                self.log_buffer = (*log.entries, *self.log_buffer)

    @property
    def spending(self) -> Spending:
        """The amounts that the tree of calls has spent. Counting starts when this is first read."""
        if self.spending_if_counted is None:
            self.spending_if_counted = Spending(self.ports.clock)
        return self.spending_if_counted

    def lease_request(self, now: datetime, *, release: bool = False, may_claim: bool = False) -> LeaseRequest | None:
        """Return the lease request that accompanies a write at `now`; None if the run saves nothing.

        With `release` the write also ends the lease, except in the run of a subgraph, whose caller continues. Only the
        core passes `may_claim`, because a late write by a node or a timer must not claim the thread again after the run
        has ended.
        """
        if self.owner is None:
            return None
        claim = self.claim
        until = None if release and not self.nested else now + self.lease_duration
        if not may_claim or self.holds_thread or self.nested:
            return LeaseRequest(self.owner, now, until)
        if claim is None:
            return LeaseRequest(self.owner, now, until, claims=True)
        claim.is_in_doubt = True
        return LeaseRequest(self.owner, now, until, claims=True, expected_epoch=claim.expected_epoch)

    @property
    def lease_duration(self) -> timedelta:
        """The duration of the run's lease after each write."""
        duration = self.claim.lease_duration if self.claim is not None else None
        return LEASE if duration is None else duration

    def move_to(self, namespace: str) -> None:
        """Continue in another namespace, in which this call was saved before the calling node was renamed."""
        assert self.branch_key is not None
        caller = self.caller
        if self.parent is not None and self.thread_memory_callers.get(self.namespace) is self.parent:
            self.thread_memory_callers[namespace] = self.thread_memory_callers.pop(self.namespace)
        if caller is not None and self.namespace in caller.run.open_namespaces:
            caller.run.open_namespaces.discard(self.namespace)
            caller.run.open_namespaces.add(namespace)
        self.namespace, self.branch_key = namespace, self.branch_key._replace(namespace=namespace)

    def record_lease(self, hold: LeaseRequest | None) -> None:
        """Record that a write with this lease request has succeeded."""
        if hold is not None:
            self.holds_thread = hold.until is not None
            if self.claim is not None:
                self.claim.is_in_doubt, self.claim.is_made = False, True
            self.lease_expires_at = hold.until

    def commit_failed(self) -> None:
        """Record that a commit in flight has failed: if it was to release the lease, the run still holds the thread."""
        self.holds_thread = self.owner is not None

    def lose_thread(self) -> None:
        """Record that another run has taken over the thread, and close the current superstep if it is ending."""
        self.has_lost_thread = True
        step = self.superstep
        if step is not None and step.ending:
            step.close_and_notify()

    def unsaved_id(self, step: int) -> str:
        """Return an id for a commit that is never saved, and so need only be unique within the run."""
        return f"{self.run_id}.{step}"

    def origin(self, commit_id: str, step: int) -> str:
        """Return the value from which the ids of the tasks that become due with a commit are derived.

        For a root run this is the id of the commit. A subgraph that the same task calls again must ask the same
        questions, although its commits have new ids. So there the value is made from the thread, the namespace and the
        step. If the subgraph saves nothing, it is made from the calling task, the last part of the namespace and the
        step, because the thread may be a copy, and a node on the path may have been renamed.
        """
        if not self.nested:
            return commit_id
        if self.branch_key is not None:
            return f"{self.settings.thread_id}|{self.namespace}#{step}"
        caller = self.metadata.get("parent_task", "")
        return f"{caller}|{self.namespace.rpartition(f':{caller}')[2]}#{step}"

    def node_config(self) -> Mapping[str, Any]:
        """Return the value of the `config` parameter of nodes."""
        return self.settings.as_config(self.namespace, self.run_id)
