"""One invocation: everything that stays the same while a run advances."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from statewright.cache import Cache
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
from statewright.clock import Clock
from statewright.errors import RunError
from statewright.events import Entry, Event, Log
from statewright.futures import AnyFuture
from statewright.graph import Budget, RunStarter
from statewright.ids import TaskId, draw_checkpoint_id, draw_run_id
from statewright.runtime.config import OnBusy, OnUnfinished, Settings
from statewright.runtime.core.limits import Spending
from statewright.store import Store

if TYPE_CHECKING:
    from statewright.runtime.concurrency.control import RunControl
    from statewright.runtime.core.effects import RunOutcome
    from statewright.runtime.core.events import EventEmitter, StreamBuffer
    from statewright.runtime.core.limits import Slots
    from statewright.runtime.core.program import Program
    from statewright.runtime.core.subgraph import SubgraphCall
    from statewright.runtime.lifecycle.claim import Claim
    from statewright.runtime.tasks.open_calls import Calls
    from statewright.runtime.tasks.scope import Attempt, Scope
    from statewright.runtime.tasks.superstep import Superstep

LEASE: Final = timedelta(seconds=60)
"""How long a run holds its thread after each write; renewed at a third of it while nodes run."""
SIBLING_GRACE: Final = 30.0
"""Seconds for which plain functions are waited for that run beside a task which failed, unless the caller says
otherwise."""
NONE_CLOSED: Final = -2
"""As the step of the last superstep that is over: lower than every step."""
ALL_CLOSED: Final = sys.maxsize
NOT_ASKED: Mapping[str, Interrupt] = {}
NO_ATTEMPTS: Mapping[TaskId, int] = {}
NO_RETRIES: Mapping[TaskId, datetime] = {}
_noting: Final = threading.Lock()


class Asked(NamedTuple):
    """What the tasks that are due had asked before a call."""

    last: Mapping[TaskId, tuple[Interrupt, ...]]
    """By task, what it had asked when it paused last."""
    by_task: Mapping[TaskId, tuple[Interrupt, ...]]
    """By task, all that it had asked, what was answered included."""
    by_id: Mapping[str, Interrupt]
    """The same by id."""


NOTHING_ASKED: Final = Asked({}, {}, {})


class Run:
    """One attempt to advance a thread, or a state without a thread, to rest."""

    __slots__ = (
        "answers",
        "attempts",
        "breaks_after",
        "breaks_before",
        "budget",
        "cache",
        "call",
        "caller",
        "calls",
        "claim",
        "claimed",
        "clock",
        "closed_step",
        "config",
        "context",
        "control",
        "delivered",
        "ended_calls",
        "former_namespaces",
        "given_state",
        "guards_all",
        "held_until",
        "hold_lost",
        "in_flight_commit",
        "journal",
        "keeps_calls",
        "known_interrupts",
        "line",
        "live",
        "log_buffer",
        "max_concurrency",
        "memories",
        "metadata",
        "migrated",
        "namespace",
        "nested",
        "on_busy",
        "on_unfinished",
        "open_namespaces",
        "overlaps",
        "owner",
        "parent",
        "program",
        "questions",
        "reader",
        "refusals",
        "refuses_changed",
        "remembers",
        "rest",
        "retries",
        "rewritten",
        "run_id",
        "saver",
        "saves_at_rest",
        "settings",
        "sibling_grace",
        "slots",
        "spent",
        "starter",
        "step_before",
        "steps_under_way",
        "stop",
        "store",
        "superstep",
        "uncommitted_from",
        "unfinished_joins",
        "unpublished_events",
        "watch",
    )

    def __init__(
        self,
        program: Program,
        settings: Settings,
        *,
        clock: Clock,
        saver: Checkpointer | None = None,
        line: BranchKey | None = None,
        context: Any = None,
        store: Store | None = None,
        cache: Cache | None = None,
        watch: EventEmitter | None = None,
        control: RunControl | None = None,
        breaks_before: frozenset[str] = frozenset(),
        breaks_after: frozenset[str] = frozenset(),
        on_unfinished: OnUnfinished | None = None,
        on_busy: OnBusy = "reject",
        owner: str | None = None,
        claim: Claim | None = None,
        answers: dict[str, Any] | None = None,
        run_id: str | None = None,
        namespace: str = "",
        nested: bool = False,
        caller: Scope | None = None,
        parent: Scope | None = None,
        sibling_grace: float | None = 0.0,
        live: dict[str, Scope] | None = None,
        keeps_calls: bool = False,
        saves_at_rest: bool = False,
        overlaps: bool = False,
        budget: Budget | None = None,
        spent: Spending | None = None,
        slots: tuple[Slots, ...] = (),
        starter: RunStarter | None = None,
        metadata: Mapping[str, Any] | None = None,
        refuses_changed: bool = False,
    ) -> None:
        self.program = program
        self.settings = settings
        self.clock = clock
        self.saver = saver
        self.line = line
        """What the run advances; None where nothing is saved."""
        self.context = context
        self.store = store
        self.cache = cache
        self.watch = watch
        """Tells those who watch; None where nobody does."""
        self.reader: StreamBuffer | None = watch.buffer if watch is not None and not nested else None
        """What the reader of this run's stream has not taken yet; None where nobody reads."""
        self.control = control
        self.breaks_before = breaks_before
        self.breaks_after = breaks_after
        self.on_unfinished: OnUnfinished | None = on_unfinished
        self.on_busy: OnBusy = on_busy
        self.owner = owner
        """Under which name the run holds its thread; None where there is nothing to hold."""
        self.claim = claim
        """What is known of its right to the thread; None where there is nothing to hold."""
        self.claimed = False
        """Whether it holds it."""
        self.known_interrupts: Mapping[str, Interrupt] = NOT_ASKED
        """What its tasks had asked before this call, by id."""
        self.questions = NOTHING_ASKED
        """The same with what was answered then, which a question that is asked again is compared with."""
        self.delivered: set[str] = set()
        """The questions of this call that were asked as before, and have got their answers."""
        self.refuses_changed = refuses_changed
        """Whether a question that is worded anew is an error, and not a warning."""
        self.answers: dict[str, Any] = {} if answers is None else answers
        """What was answered to the questions of tasks that are still due, by interrupt id."""
        self.attempts: Mapping[TaskId, int] = NO_ATTEMPTS
        """How often tasks had failed before this call."""
        self.retries: Mapping[TaskId, datetime] = NO_RETRIES
        """When tasks that had failed before this call are to be tried again."""
        self.journal: dict[JournalKey, JournalEntry] = {}
        """The steps that tasks of the present superstep have done."""
        self.calls: Calls | None = None
        """The calls of `@task` functions that its tasks have under way; None while there was none."""
        self.budget = budget
        self.spent = spent
        """What was counted against the budget; None where nothing was."""
        self.starter = starter
        """What starts runs beside this one; None where nobody does."""
        self.slots = slots
        """The limits on what is at work at once in the whole tree of calls."""
        self.guards_all = bool(slots)
        """Whether tasks are performed with guards even if their nodes have no policies: limits of the run, or Sends
        with a timeout."""
        self.max_concurrency = settings.max_concurrency
        self.run_id = run_id or settings.run_id or draw_run_id()
        self.stop = 0
        """The step at which the recursion limit is reached."""
        self.open_namespaces: set[str] = set()
        """Namespaces of the subgraph calls of tasks that are not consumed yet."""
        self.rest: RunOutcome | None = None
        self.namespace = namespace
        """Empty for a run's own graph; the path of tasks that leads to a subgraph."""
        self.former_namespaces: tuple[str, ...] = ()
        """Where a call may have been saved before the node that calls was renamed."""
        self.overlaps = overlaps
        """Whether a superstep may begin before the last one is saved: durability `async`."""
        self.unpublished_events: dict[TaskId, Event] = {}
        """That tasks have ended, where that counts only once it is saved, and is told only then."""
        self.migrated: Mapping[str, Any] | None = None
        """The state as it was saved, if it was migrated since and that is not saved yet."""
        self.unfinished_joins: tuple[str, ...] = ()
        """The join edges that it left half reached, and who did not arrive, once it has ended."""
        self.in_flight_commit: AnyFuture[Any] | None = None
        """The commit that is under way while the run goes on."""
        self.saves_at_rest = saves_at_rest
        """Whether supersteps are saved only when the run comes to rest: durability `exit`."""
        self.uncommitted_from: Checkpoint | None = None
        """The last checkpoint that was saved, if the run has moved since."""
        self.ended_calls: dict[str, Scope] = {}
        """By namespace where those calls of the present superstep have ended that have not saved it: they do so only if
        their tasks do not land."""
        self.rewritten: set[str] = set()
        """The fields that were written since then, but for lists that only grew."""
        self.live: dict[str, Scope] = {} if live is None else live
        """The namespaces with a memory of their own in which something runs, in the whole tree of calls."""
        self.keeps_calls = keeps_calls
        """Whether the checkpoints of subgraph calls stay when their tasks are consumed."""
        self.log_buffer: tuple[Entry, ...] = ()
        """What tasks of the present superstep want in the log: it goes with the next write."""
        self.nested = nested
        """Whether a task of another run has called it."""
        self.caller = caller
        """The task that has called it, if both save."""
        self.parent = parent
        """The task that has called it, of a subgraph."""
        self.sibling_grace = sibling_grace
        """For how many seconds plain functions are waited for when a task beside them fails; None for ever."""
        self.superstep: Superstep | None = None
        """The tasks that run beside each other now; None while at most one runs."""
        self.closed_step = NONE_CLOSED
        """The step of the last checkpoint whose tasks are over: what they still do has no effect."""
        self.held_until: datetime | None = None
        """Until when it holds its thread, as far as it knows."""
        self.hold_lost = False
        """Whether it is known that another run has taken over its thread."""
        self.refusals: dict[TaskId, RunError] = {}
        """By planned task, the error that it got because the run is over: see `standing.note_refusal`."""
        self.steps_under_way: dict[JournalKey, Attempt] = {}
        """The attempt that last started each running step, for tasks with retry or timeout policies."""
        self.memories: dict[str, str] = {}
        """Which checkpoint of each memory inside its namespace is known to it."""
        self.given_state = False
        """Whether it is a node of the graph around it: what it is given is state then, and no input."""
        self.remembers = False
        """Whether it is a call with memory="thread"."""
        self.call: SubgraphCall | None = None
        """The subgraph call that this run executes; None at the root."""
        self.step_before = -1
        """The step number before the first step. A retried call counts on, so that its task ids are new."""
        self.metadata = metadata or {}
        """Kept with each commit."""

    def recall_questions(self, pending: Pending) -> None:
        """Take up what the tasks that are due have asked before."""
        by_task = pending.questions()
        by_id = {one.id: one for asked in by_task.values() for one in asked}
        self.questions = Asked(pending.interrupts, by_task, {**self.questions.by_id, **by_id})
        self.known_interrupts = {
            **self.known_interrupts,
            **{one.id: one for asked in pending.interrupts.values() for one in asked},
        }

    def inherit_questions(self, caller: Run, task: Task) -> None:
        """Take up what the calls of a task had asked: one that saves nothing does not know it itself."""
        asked = caller.questions_of(task)
        self.known_interrupts = {question.id: question for question in asked if question.id in caller.known_interrupts}
        self.questions = Asked({}, {}, {question.id: question for question in asked})

    def questions_of(self, task: Task) -> Iterable[Interrupt]:
        """Return what a task, and the calls that it made, had asked before."""
        if self.line is None and self.nested:
            return self.questions.by_id.values()
        return self.questions.by_task.get(task.planned_id, ())

    def settled_by(self, task: TaskId, asks: Iterable[Interrupt]) -> tuple[Interrupt, ...]:
        """Return the questions of a task that were answered before it paused again, with what it asks now."""
        still = {question.id for question in asks}
        last = self.questions.last.get(task, ())
        return tuple(one for one in last if one.id in self.answers and one.id not in still)

    @property
    def root(self) -> Run:
        """The run that was not called by a task of another one."""
        return self if self.parent is None else self.parent.run.root

    @property
    def shares_journal(self) -> bool:
        """True for a nested run without a saver, whose steps go into the journal of its caller."""
        return self.nested and self.line is None

    @property
    def emits_after_commit(self) -> bool:
        """Whether those who watch hear of results only when these are saved: durability `sync`."""
        return self.saver is not None and not self.overlaps and not self.saves_at_rest

    def count_as_finished(self, tasks: Iterable[TaskId]) -> None:
        """Tell those who watch that tasks have ended."""
        for task in tasks:
            event = self.unpublished_events.pop(task, None)
            if event is not None and self.watch is not None:
                self.watch.emit(event)

    def note(self, entry: Entry) -> None:
        """Note something for the log; tasks that run beside each other may."""
        with _noting:
            self.log_buffer = (*self.log_buffer, entry)

    def take_noted(self, task: TaskId | None = None) -> tuple[Entry, ...]:
        """What tasks have noted for the log, or one of them has, to be written now."""
        with _noting:
            if task is None:
                noted, self.log_buffer = self.log_buffer, ()
            else:
                noted = tuple(entry for entry in self.log_buffer if entry[3] == task)
                self.log_buffer = tuple(entry for entry in self.log_buffer if entry[3] != task)
        return noted

    def put_back_noted(self, log: Log | None) -> None:
        """Keep entries for the log that were taken, and that were not written as their write was refused."""
        if log is not None:
            with _noting:
                self.log_buffer = (*log.entries, *self.log_buffer)

    @property
    def spending(self) -> Spending:
        """The counts of this call."""
        if self.spent is None:
            self.spent = Spending(self.clock)
        return self.spent

    def hold(
        self, *, release: bool = False, may_claim: bool = False, now: datetime | None = None
    ) -> LeaseRequest | None:
        """The hold on the thread that goes with the next write; `release` lets go, unless a caller goes on.

        Only the core may claim the thread: what a node or a timer still writes when the run has ended is refused.
        """
        if self.owner is None:
            return None
        now, claim = now or self.clock.now(), self.claim
        until = None if release and not self.nested else now + self.lease_duration
        if not may_claim or self.claimed or self.nested:
            return LeaseRequest(self.owner, now, until)
        if claim is None:
            return LeaseRequest(self.owner, now, until, claims=True)
        claim.in_doubt = True
        return LeaseRequest(self.owner, now, until, claims=True, expected_epoch=claim.expected_epoch)

    @property
    def lease_duration(self) -> timedelta:
        """How long the run holds its thread after each write."""
        own = self.claim.lease_duration if self.claim is not None else None
        return LEASE if own is None else own

    def move_to(self, namespace: str) -> None:
        """Go on in the namespace in which the call was saved under a former name of its node."""
        assert self.line is not None
        caller = self.caller
        if self.parent is not None and self.live.get(self.namespace) is self.parent:
            self.live[namespace] = self.live.pop(self.namespace)
        if caller is not None and self.namespace in caller.run.open_namespaces:
            caller.run.open_namespaces.discard(self.namespace)
            caller.run.open_namespaces.add(namespace)
        self.namespace, self.line = namespace, self.line._replace(namespace=namespace)

    def holds(self, hold: LeaseRequest | None) -> None:
        """Note that a write with that hold has happened."""
        if hold is not None:
            self.claimed = hold.until is not None
            if self.claim is not None:
                self.claim.in_doubt, self.claim.is_made = False, True
            self.held_until = hold.until

    def commit_failed(self) -> None:
        """Note that a commit failed after the run had gone on: if it was to let go of the thread, it did not."""
        self.claimed = self.owner is not None

    def lose_hold(self) -> None:
        """Note that another run has taken over the thread: nobody waits any more for what could not be saved."""
        self.hold_lost = True
        step = self.superstep
        if step is not None and step.ending:
            step.close_and_tell()

    def commit_id(self, step: int) -> str:
        """An id for the commit of a step: drawn where it is saved, else its number within the run."""
        return draw_checkpoint_id() if self.saver is not None else f"{self.run_id}.{step}"

    def origin(self, commit_id: str, step: int) -> str:
        """What the ids of tasks are derived from that a commit makes due.

        A subgraph that is called again for the same task must ask the same questions, though it commits anew. What it
        saves keeps its ids; one that saves nothing has only its caller's task to go by, since the thread may be a copy
        and the node may have another name since.
        """
        if not self.nested:
            return commit_id
        if self.line is not None:
            return f"{self.settings.thread_id}|{self.namespace}#{step}"
        caller = self.metadata.get("parent_task", "")
        return f"{caller}|{self.namespace.rpartition(f':{caller}')[2]}#{step}"

    def now(self) -> datetime | None:
        """The present instant, where a commit will need it."""
        return self.clock.now() if self.saver is not None else None

    def node_config(self) -> Mapping[str, Any]:
        """What a node that asks for `config` gets."""
        return self.settings.as_config(self.namespace, self.run_id)
