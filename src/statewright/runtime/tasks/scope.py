"""The task that the running code belongs to, as a context variable.

A run reuses one scope object for all tasks that run one after another, and sets its attributes for each task, because a
new object per superstep would cost more. Tasks that run concurrently get their own scopes and contexts.

Code may outlive its task: a node may start threads, or keep its runtime. So the context variable stores not only the
reused scope, but also the task for which it was entered (`EnteredScope`). If the scope has moved on to another task,
`current_scope` returns a scope of the finished task instead, through which side effects are rejected.
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

_slots_lock = threading.Lock()
"""Held while slots move between `held_slots` and `suspended_slots` of a scope; no other code runs under it."""


class SiblingGroup(Protocol):
    """The executor of tasks that run concurrently."""

    @property
    def threads(self) -> Slots:
        """The limit on plain functions that run at once."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True while it cancels the coroutines that it has started."""
        ...

    def report_end(self, scope: Scope, outcome: Outcome) -> None:
        """Accept the outcome of a task that has ended."""
        ...


class CalledTask(Task):
    """A step or a `@task` call, treated as a task: its interrupts, steps and subgraph calls have their own ids."""

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


class TaskCounters:
    """Counters of the steps, interrupts and subgraph calls in one execution of a task, from which their ids derive."""

    __slots__ = ("failed_ordinals", "ordinals", "retryable", "task", "unkeyed_calls", "used_keys")

    def __init__(self, task: Task | None) -> None:
        self.task = task
        self.unkeyed_calls = 0
        """The number of subgraph calls without a key."""
        self.ordinals: dict[str, int] = {}
        """The number of calls so far, by step name."""
        self.used_keys: set[tuple[str, str]] = set()
        """The keys that were used, each after its kind."""
        self.failed_ordinals: dict[tuple[str, str], list[int]] = {}
        """The ordinals of failed steps, by step name and argument fingerprint."""
        self.retryable: dict[tuple[object, ...], bool] = {}
        """The subgraph calls that may be retried, by retry key: True if the call failed, False if it was cancelled."""

    def next_ordinal(self, name: str, args_hash: str) -> int:
        """Return the ordinal of the next call, reusing that of a failed call with the same name and arguments.

        So if a node retries a failed step, its next execution, in which the step does not fail, finds the result.
        """
        failed = self.failed_ordinals.get((name, args_hash))
        return failed.pop(0) if failed else self.next_position(name)

    def next_position(self, name: str) -> int:
        """Return the ordinal of the next operation with that name, counted from 0. Questions have the empty name."""
        position = self.ordinals.get(name, 0)
        self.ordinals[name] = position + 1
        return position

    def note_failed(self, name: str, args_hash: str, ordinal: int) -> None:
        """Release the ordinal of a failed call for a retry with the same name and arguments."""
        insort(self.failed_ordinals.setdefault((name, args_hash), []), ordinal)


class Scope:
    """The task that is being executed, with its run, attempt and slots."""

    __slots__ = (
        "_counters",
        "attempt",
        "awaited_child_count",
        "checkpoint",
        "fast_path",
        "held_slots",
        "index",
        "input",
        "is_inline",
        "mutation_snapshot",
        "refusals",
        "run",
        "shares_slots",
        "sibling_group",
        "suspended_slots",
        "task",
    )

    def __init__(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> None:
        self.run = run
        self.sibling_group: SiblingGroup | None = None
        """Receives the outcome of a task that runs concurrently with others; None for one that runs alone."""
        self.index = 0
        """The index of the task among those that run concurrently."""
        self.fast_path = run.program.allows_fast_path and run.emitter is None
        """True if a task only reads its input and calls its node: there are no events, and no computed fields."""
        self.task = task
        self.checkpoint = checkpoint
        self.input: Any = None
        """The input of the node, for error handlers."""
        self.mutation_snapshot: Any = None
        """With `compile(debug=True)`: the state and the input before the node ran, to detect changes in place."""
        self.attempt: Attempt | None = None
        """The current attempt at a task with policies; None for other tasks."""
        self.is_inline = False
        """True if siblings run while this task runs on the driver's thread, which must not wait for their slots."""
        self.shares_slots = False
        """True for a copy whose slots are released by the original."""
        self.awaited_child_count = 0
        """The number of subgraphs and `@task` calls that the task is waiting for."""
        self.held_slots: Sequence[Slots] = ()
        """The slots that the task occupies. It releases them while it waits for its children."""
        self.suspended_slots: Sequence[Slots] = ()
        """The slots that it has released while it waits."""
        self.refusals = run.refusals
        """Errors raised in tasks because their run is over, by task id: see `liveness.note_refusal`."""
        self._counters: TaskCounters | None = None
        """The counters, shared by all copies; until the first use None, or those of another task."""

    def enter_sibling(self, task: Task, index: int) -> Scope:
        """Enter and return a new scope for one of several concurrent tasks."""
        scope = Scope(self.run, task, self.checkpoint)
        scope.sibling_group, scope.index, scope.held_slots = self.sibling_group, index, self.held_slots
        enter_scope(scope)
        return scope

    def copy(self) -> Scope:
        """Return a scope that stays with the current task and attempt."""
        scope = Scope(self.run, self.task, self.checkpoint)
        scope.attempt, scope.held_slots, scope.refusals = self.attempt, self.held_slots, self.refusals
        scope._counters = self.counters()
        return scope

    def copy_sharing_slots(self) -> Scope:
        """Return a copy for other code that acts for the task, e.g. on another thread. The original keeps the slots."""
        copy = self.copy()
        copy.shares_slots = True
        return copy

    @contextmanager
    def enter_step(self, key: JournalKey) -> Generator[Scope]:
        """During the block, enter a scope for the function of a step, with its own task id.

        Steps inside the function must not advance the counters of the task, because a replay skips the function.
        """
        step_scope = self.copy_sharing_slots()
        step_scope.task = CalledTask(cast(Task, self.task), key)
        token = enter_scope(step_scope)
        try:
            yield step_scope
        finally:
            leave_anywhere(token)
            step_scope.detach()

    @property
    def uses_slots(self) -> bool:
        """True if the task occupies slots, or has released them while it waits for a child."""
        return bool(self.held_slots or self.awaited_child_count)

    def suspend_slots(self) -> None:
        """Release the slots of the task before it waits for a child."""
        self.awaited_child_count += 1
        if self.held_slots:
            with _slots_lock:
                released, self.held_slots = self.held_slots, ()
                self.suspended_slots = released
            for slots in released:
                slots.release()

    def slots_to_resume(self) -> Sequence[Slots]:
        """Return the slots to acquire again after a child has ended: none while the task awaits another child."""
        self.awaited_child_count -= 1
        if self.awaited_child_count:
            return ()
        with _slots_lock:
            slots, self.suspended_slots = self.suspended_slots, ()
        return slots

    def skip_slot(self, slots: Slots) -> None:
        """Continue without a slot that was released for a child."""
        if self.shares_slots:  # the original will release it again
            slots.overdraw()

    def detach(self) -> None:
        """End the use of a copy. The original will release again what the copy has released for a child."""
        with _slots_lock:
            suspended, self.suspended_slots, self.held_slots = self.suspended_slots, (), ()
        for slots in suspended:
            slots.overdraw()

    def drop_suspended_slots(self) -> None:
        """Continue without the slots that were released for a child. For finalisers, which must not wait."""
        self.awaited_child_count -= 1
        if not self.awaited_child_count:
            if self.shares_slots and self.suspended_slots:
                workers.hand_over(self.detach)
            else:
                self.suspended_slots = ()

    def begin_attempt(self, attempt: Attempt) -> None:
        """Start an attempt and enter its scope in the current context."""
        self.attempt = attempt
        self.reset_counters()
        enter_scope((self, self.task, self.checkpoint, attempt))

    def reset_counters(self) -> None:
        """Reset the counters, since the task is executed again."""
        self._counters = None

    def end_attempts(self) -> None:
        """Record that a task with policies has ended."""
        if self.sibling_group is None:  # the scope is reused for the next task, which has no attempt yet
            self.attempt = None

    @property
    def abandoned(self) -> bool:
        """True if the outcome of the task is no longer awaited: its attempt, or an outer attempt, has ended."""
        current: CallingTask | None = self
        while current is not None:
            if current.attempt is not None and current.attempt.is_over_for(current.task):
                return True
            current = current.run.parent
        return False

    def reset_idle_timeout(self, value: object = None) -> None:
        """Reset the idle timeouts of the current attempts, except attempts that count only explicit heartbeats."""
        attempt = self.attempt
        while attempt is not None and not attempt.has_ended_for(self.task):
            if not attempt.heartbeat_only:
                attempt.beat()
            attempt = attempt.outer

    def heartbeat(self) -> None:
        """Reset the idle timeouts of the task and of all enclosing tasks. Has no effect after the attempt has ended."""
        current: CallingTask | None = self
        while current is not None:
            attempt = current.attempt
            while attempt is not None:
                if attempt.has_ended_for(current.task):
                    return
                attempt.beat()
                attempt = attempt.outer
            current = current.run.parent

    def next_question(self, key: str | None) -> int | str:
        """Return the key of the next question, or its ordinal if it has no key."""
        if key is not None and not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidUpdateError(f"The key {key!r} of a question is of type {type(key).__name__}. Pass a string.")
        return self.next_position("") if key is None else self.use_key("interrupt key", key)

    def use_key(self, kind: str, key: str) -> str:
        """Record and return a key. Raises InvalidUpdateError if the task has already used it for the same kind."""
        used_keys = self.counters().used_keys
        if (kind, key) in used_keys:
            node = self.task.node if self.task else None
            raise InvalidUpdateError(f"Node {node!r} used the {kind} {key!r} twice. Use a different key for each call.")
        used_keys.add((kind, key))
        return key

    def next_position(self, name: str) -> int:
        """Return the ordinal of the next operation with that name in the current execution, counted from 0."""
        return self.counters().next_position(name)

    def counters(self) -> TaskCounters:
        """Return the counters of the current execution."""
        counters = self._counters
        if counters is None or counters.task is not self.task:
            self._counters = counters = TaskCounters(self.task)
        return counters


@contextmanager
def part_of_attempt() -> Generator[Attempt | None]:
    """Run the block in a nested attempt, which can time out without ending the attempt of the node.

    Yields the attempt, or None outside a node. Set its `abandoned` to reject side effects of code that still runs.
    """
    scope = current_scope()
    if scope is None:
        yield None
        return
    outer, inner_scope = scope.attempt, scope.copy_sharing_slots()
    inner_scope.attempt = Attempt(
        outer.number if outer is not None else 1,
        scope.run.ports.clock,
        is_repeat=outer is not None and outer.is_repeat,
        heartbeat_only=outer is not None and outer.heartbeat_only,
        outer=outer,
    )
    token = enter_scope(inner_scope)
    try:
        yield inner_scope.attempt
    finally:
        leave_scope(token)
        inner_scope.detach()


def enclosing_work(scope: Scope) -> Sequence[TaskId]:
    """Return the ids of the enclosing steps, `@task` calls and tasks, the innermost first.

    A child run must be stored with the first of these to be saved, because a replay does not execute that one again.
    """
    ids = list[TaskId]()
    current: CallingTask | None = scope
    while current is not None:
        task = current.task
        while task is not None:
            ids.append(task.id)
            task = task.caller
        current = current.run.parent
    return ids


EnteredScope = tuple[Scope, Task | None, "Checkpoint | None", Attempt | None]
"""A scope with the task, checkpoint and attempt for which it was entered."""

_current: ContextVar[Scope | EnteredScope | None] = ContextVar("statewright_scope", default=None)
enter_scope = _current.set
leave_scope = _current.reset


def current_scope() -> Scope | None:
    """Return the scope of the running code, or None outside a run.

    Threads and asyncio tasks that outlive a node keep its context. They get a scope of the finished task or attempt.
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


def leave_anywhere(token: Token[Scope | EnteredScope | None]) -> None:
    """Leave the scope, unless it was left before: an abandoned stream may be closed twice, and in another context."""
    try:  # noqa: SIM105  # `suppress` costs as much as a superstep
        leave_scope(token)
    except (ValueError, RuntimeError):
        pass
