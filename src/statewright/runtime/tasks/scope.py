"""The execution that the present code belongs to, as a context variable.

One scope object serves all tasks that run one after another in a run's own context; its fields are renewed per
task. Tasks that run beside others get a scope, and a context, of their own.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Protocol, cast

from statewright.checkpoint import NO_ARG, Checkpoint, JournalKey, Task, step_id
from statewright.errors import InvalidUpdateError
from statewright.ids import TaskId
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Outcome
from statewright.runtime.invocation.run import CallingTask, Run

_lending = threading.Lock()
"""Held while slots move between a scope and its suspended slots. No other code runs meanwhile."""


class Ends(Protocol):
    """Runs tasks concurrently."""

    @property
    def threads(self) -> Slots:
        """Return how many plain functions may run at once."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True while it cancels the coroutines that it has started."""
        ...

    def ended(self, scope: Scope, outcome: Outcome) -> None: ...


class CalledTask(Task):
    """A step or a `@task` call, treated as a task: its interrupts, steps and subgraph calls have ids of their own."""

    __slots__ = ("_caller", "_id")

    def __init__(self, caller: Task, key: JournalKey) -> None:
        super().__init__(caller.node, NO_ARG, caller.origin, caller.position)
        self._caller, self._id = caller, step_id(key)

    @property
    def id(self) -> TaskId:
        return self._id

    @property
    def caller(self) -> Task:
        return self._caller


class Counts:
    """Counters of the steps, interrupts and subgraph calls in one execution of a task, from which their ids derive."""

    __slots__ = ("calls", "failed", "keys", "ordinals", "retryable", "task")

    def __init__(self, task: Task | None) -> None:
        self.task = task
        self.calls = 0
        """Number of subgraph calls without a key."""
        self.ordinals: dict[str, int] = {}
        """Number of calls so far, by step name."""
        self.keys: set[tuple[str, str]] = set()
        self.failed: dict[tuple[str, str], list[int]] = {}
        """Ordinals of failed steps, by step name and argument fingerprint."""
        self.retryable: dict[tuple[object, ...], bool] = {}
        """Retry keys of subgraph calls that may be retried: True if the call failed, False if it was cancelled."""

    def next_ordinal(self, name: str, arguments: str) -> int:
        """Return the ordinal of the next call, reusing that of a failed call with the same name and arguments.

        A node that catches the error and retries then finds the result under the first ordinal when it is re-executed.
        """
        failed = self.failed.get((name, arguments))
        if failed:
            return failed.pop(0)
        count = self.ordinals.get(name, 0)
        self.ordinals[name] = count + 1
        return count

    def note_failed(self, name: str, arguments: str, ordinal: int) -> None:
        """Release the ordinal of a failed call for a retry with the same name and arguments."""
        insort(self.failed.setdefault((name, arguments), []), ordinal)


class Scope:
    """The task that is being executed, and its run."""

    __slots__ = (
        "_counts",
        "attempt",
        "checkpoint",
        "holding",
        "input",
        "is_inline",
        "lending",
        "mutation_snapshot",
        "place",
        "plain",
        "refusals",
        "run",
        "shares_slots",
        "sibling_group",
        "suspended_slots",
        "task",
    )

    def __init__(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> None:
        self.run = run
        self.sibling_group: Ends | None = None
        """Receives the outcome of a task that runs concurrently with others; None for one that runs alone."""
        self.place = 0
        """The position of the task among those that run concurrently."""
        self.plain = run.program.lean and run.watch is None
        """True if a task only reads, calls and writes: no events are wanted, and nothing has to be computed."""
        self.task = task
        self.checkpoint = checkpoint
        self.input: Any = None
        """The input of the node, for error handlers."""
        self.mutation_snapshot: Any = None
        """The state and the node's own copies before it ran, where changes in place are looked for."""
        self.attempt: Attempt | None = None
        """The attempt, for a task with policies."""
        self.is_inline = False
        """True if it runs on the thread of the driver while siblings are running: it must not wait for them there."""
        self.shares_slots = False
        """True for a copy that shares its slots with the original, which releases them."""
        self.lending = 0
        """The number of children that the task is waiting for."""
        self.holding: Sequence[Slots] = ()
        """The places of limits that the task takes up; it gives them back while it waits for its own children."""
        self.suspended_slots: Sequence[Slots] = ()
        self.refusals = run.refusals
        """Errors raised in tasks because their run is over, by task id: see `standing.note_refusal`."""
        self._counts: Counts | None = None
        """Counters shared by all copies; None, or those of another task, until the first use."""

    def enter_apart(self, task: Task, place: int) -> Scope:
        """A scope of its own for a task that runs beside others, entered."""
        scope = Scope(self.run, task, self.checkpoint)
        scope.sibling_group, scope.place, scope.holding = self.sibling_group, place, self.holding
        enter_scope(scope)
        return scope

    def copy(self) -> Scope:
        """A scope for the same task, and the same attempt, which stays with it."""
        scope = Scope(self.run, self.task, self.checkpoint)
        scope.attempt, scope.holding, scope.refusals = self.attempt, self.holding, self.refusals
        scope._counts = self.counts()
        return scope

    def copy_for_thread(self) -> Scope:
        """Return a copy for an attempt on a thread of its own. It shares the slots of the original."""
        own = self.copy()
        own.shares_slots = True
        return own

    @contextmanager
    def calling(self, key: JournalKey) -> Generator[Scope]:
        """Enter a scope for the function of a step, with a task id of its own.

        Nested steps must not advance the counters of the task: a replay skips the function.
        """
        own = self.copy_for_thread()
        own.task = CalledTask(cast(Task, self.task), key)
        token = enter_scope(own)
        try:
            yield own
        finally:
            leave_anywhere(token)
            own.detach()

    def suspend_slots(self) -> None:
        """Release the slots of the task before it waits for a child."""
        self.lending += 1
        if self.holding:
            with _lending:
                self.suspended_slots = held = self.holding
                self.holding = ()
            for slots in held:
                slots.release()

    def resumed_slots(self) -> Sequence[Slots]:
        """The slots to take again, now that a child has ended: none while the task waits for another one."""
        self.lending -= 1
        if self.lending:
            return ()
        with _lending:
            slots, self.suspended_slots = self.suspended_slots, ()
        return slots

    def go_without(self, slots: Slots) -> None:
        """Continue without a slot that was released for a child. The original of a copy will release it once more."""
        if self.shares_slots:
            slots.overdraw()

    def detach(self) -> None:
        """Give up a copy. The slots that it has released for a child are released again by the original."""
        with _lending:
            slots, self.suspended_slots, self.holding = self.suspended_slots, (), ()
        for one in slots:
            one.overdraw()

    def forgo(self) -> None:
        """Continue without the slots that were released for a child, for callers that must not wait."""
        self.lending -= 1
        if not self.lending:
            if self.shares_slots and self.suspended_slots:
                workers.hand_over(self.detach)
            else:
                self.suspended_slots = ()

    def begin_attempt(self, attempt: Attempt) -> None:
        """Start an attempt and enter its scope in the current context."""
        self.attempt = attempt
        self.count_anew()
        enter_scope((self, self.task, self.checkpoint, attempt))

    def count_anew(self) -> None:
        """Reset the counters of questions, steps and calls, since the task is executed again."""
        self._counts = None

    def end_attempts(self) -> None:
        """The task is through: what comes next in this scope, if it serves several tasks, has no attempts yet."""
        if self.sibling_group is None:
            self.attempt = None

    @property
    def abandoned(self) -> bool:
        """True if the outcome of the task is not awaited any more: its attempt, or one around it, was abandoned."""
        inner: CallingTask | None = self
        while inner is not None:
            if inner.attempt is not None and inner.attempt.is_over_for(inner.task):
                return True
            inner = inner.run.parent
        return False

    def sign_of_life(self, value: object = None) -> None:
        """Reset the idle timeouts of the current attempts, except those that accept only explicit heartbeats."""
        attempt = self.attempt
        while attempt is not None and not attempt.has_ended_for(self.task):
            if not attempt.heartbeat_only:
                attempt.beat()
            attempt = attempt.outer

    def heartbeat(self) -> None:
        """Reset the idle timeouts of the task and all enclosing tasks; ignored after the attempt has ended."""
        inner: CallingTask | None = self
        while inner is not None:
            attempt = inner.attempt
            while attempt is not None:
                if attempt.has_ended_for(inner.task):
                    return
                attempt.beat()
                attempt = attempt.outer
            inner = inner.run.parent

    def next_question(self, key: str | None) -> int | str:
        """Return what identifies the next question among those of this task: its ordinal, or its key."""
        if key is not None and not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidUpdateError(f"The key {key!r} of a question is of type {type(key).__name__}. Give a text.")
        return self.next_of("") if key is None else self.use_key("interrupt key", key)

    def use_key(self, what: str, key: str) -> str:
        """The key, used once. Raises InvalidUpdateError if the task has used it before."""
        keys = self.counts().keys
        if (what, key) in keys:
            node = self.task.node if self.task else None
            raise InvalidUpdateError(f"Node {node!r} used the {what} {key!r} twice. Give each its own key.")
        keys.add((what, key))
        return key

    def next_of(self, name: str) -> int:
        """How often the task has done something of that name before; questions have the empty name."""
        ordinals = self.counts().ordinals
        count = ordinals.get(name, 0)
        ordinals[name] = count + 1
        return count

    def counts(self) -> Counts:
        """Return the counters of the current execution."""
        counts = self._counts
        if counts is None or counts.task is not self.task:
            self._counts = counts = Counts(self.task)
        return counts


@contextmanager
def part_of_attempt() -> Generator[Attempt | None]:
    """Run the block in a nested attempt, which can time out without ending the attempt of the node.

    Yields it, or None outside a node. Set its `abandoned` to reject side effects of code that was left running.
    """
    scope = current_scope()
    if scope is None:
        yield None
        return
    outer, own = scope.attempt, scope.copy_for_thread()
    own.attempt = Attempt(
        outer.number if outer is not None else 1,
        scope.run.ports.clock,
        again=outer is not None and outer.again,
        heartbeat_only=outer is not None and outer.heartbeat_only,
        outer=outer,
    )
    token = enter_scope(own)
    try:
        yield own.attempt
    finally:
        leave_scope(token)
        own.detach()


def enclosing_work(scope: Scope) -> Sequence[TaskId]:
    """Return the ids of the enclosing steps, `@task` calls and tasks, the innermost first.

    A child run must be saved with the first of these results: a replay does not execute that work again.
    """
    found = list[TaskId]()
    inner: CallingTask | None = scope
    while inner is not None:
        task = inner.task
        while task is not None:
            found.append(task.id)
            task = task.caller
        inner = inner.run.parent
    return found


Turn = tuple[Scope, Task | None, "Checkpoint | None", Attempt | None]
"""A reusable scope, with the task, checkpoint and attempt for which it was entered."""

_current: ContextVar[Scope | Turn | None] = ContextVar("statewright_scope", default=None)
enter_scope = _current.set
leave_scope = _current.reset


def current_scope() -> Scope | None:
    """Return the scope of the running code, or None outside a run.

    The driver reuses its scope for the next task or attempt. Threads and asyncio tasks that outlive a node keep its
    context; they get a scope of the finished task or attempt, which rejects side effects.
    """
    entered = _current.get()
    if type(entered) is not tuple:
        return cast("Scope | None", entered)
    scope, task, checkpoint, attempt = entered
    if scope.task is task and (attempt is None or scope.attempt is attempt):
        return scope
    finished = Scope(scope.run, task, checkpoint)
    finished.attempt = attempt
    return finished


def leave_anywhere(token: Token[Scope | Turn | None]) -> None:
    """Leave the scope, unless the reader abandoned the stream: then it was left before, maybe in another context."""
    try:  # noqa: SIM105  # `suppress` costs as much as a step
        leave_scope(token)
    except (ValueError, RuntimeError):
        pass
