"""The task that the running code belongs to, as a context variable.

A run has one scope object for all tasks that run one after another, and sets its attributes for each task, because a
new object per superstep would cost more. Tasks that run concurrently get their own scopes and contexts.

Code may outlive its task, because a node may start threads, or keep its runtime. So the context variable stores not
only the reused scope, but also the task for which the scope was entered (`EnteredScope`). If the scope has moved on to
another task, `current_scope` returns a scope of the finished task instead, through which side effects are rejected.
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
"""Held only while slots are moved between `held_slots` and `suspended_slots` of a scope."""


class SiblingGroup(Protocol):
    """The executor of tasks that run concurrently, as the scopes of these tasks see it."""

    @property
    def threads(self) -> Slots:
        """The limit on plain functions that run at once on threads."""
        ...

    @property
    def is_stopping(self) -> bool:
        """True once the executor has cancelled the coroutines that it has started."""
        ...

    def report_end(self, scope: Scope, outcome: Outcome) -> None:
        """Accept the outcome of a task that has ended."""
        ...


class CalledTask(Task):
    """A step or a `@task` call as a task of its own, from which the ids of interrupts, steps and calls in it derive."""

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
    """Counters for one execution of a task. The ids of its steps, interrupts and subgraph calls derive from them."""

    __slots__ = ("failed_ordinals", "ordinals", "retryable", "task", "unkeyed_calls", "used_keys")

    def __init__(self, task: Task | None) -> None:
        self.task = task
        self.unkeyed_calls = 0
        """The number of subgraph calls without a `call_key` so far."""
        self.ordinals: dict[str, int] = {}
        """By name: the number of steps and `@task` calls so far. Questions without a key have the empty name."""
        self.used_keys: set[tuple[str, str]] = set()
        """The keys that user code has passed, as pairs (kind of key, key)."""
        self.failed_ordinals: dict[tuple[str, str], list[int]] = {}
        """By name and argument fingerprint: the ordinals of failed steps, sorted."""
        self.retryable: dict[tuple[object, ...], bool] = {}
        """By retry key: True for a subgraph call that has failed, False for one that was cancelled. Both may be
        retried."""

    def next_ordinal(self, name: str, args_hash: str) -> int:
        """Return the ordinal of the next call. The ordinal of a failed call with the same name and arguments is reused.

        A node may retry a failed step itself. When the node is executed again, it does not see the failure, so its
        first call must find the result of that retry.
        """
        failed = self.failed_ordinals.get((name, args_hash))
        return failed.pop(0) if failed else self.next_position(name)

    def next_position(self, name: str) -> int:
        """Return the ordinal of the next operation with that name, counted from 0."""
        position = self.ordinals.get(name, 0)
        self.ordinals[name] = position + 1
        return position

    def note_failed(self, name: str, args_hash: str, ordinal: int) -> None:
        """Record that a call has failed, so that a retry with the same name and arguments reuses its ordinal."""
        insort(self.failed_ordinals.setdefault((name, args_hash), []), ordinal)


class Scope:
    """The task that is being executed, with its run, its attempt and its slots of concurrency limits."""

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
        """The executor that receives the outcome of the task; None if the task is the only one of its superstep."""
        self.index = 0
        """The index of the task in its superstep."""
        self.fast_path = run.program.allows_fast_path and run.emitter is None
        """True if executing a task means no more than reading the input, calling the node and reading its answer: there
        are no events, computed fields or error handlers."""
        self.task = task
        self.checkpoint = checkpoint
        self.input: Any = None
        """The input of the node, if it was read, for the error handler of the node."""
        self.mutation_snapshot: Any = None
        """With `compile(debug=True)`: a snapshot of the state and one of the input, made before the node ran."""
        self.attempt: Attempt | None = None
        """The current attempt at a task with policies; None for other tasks."""
        self.is_inline = False
        """True if the task runs on the driver's thread while sibling tasks are running elsewhere. It must not wait for
        slots that these siblings hold."""
        self.shares_slots = False
        """True for a copy of a scope if the original will release the slots."""
        self.awaited_child_count = 0
        """The number of children (subgraphs and `@task` calls) that the task is waiting for."""
        self.held_slots: Sequence[Slots] = ()
        """The limits in which the task occupies a slot. It releases its slots while it waits for its children."""
        self.suspended_slots: Sequence[Slots] = ()
        """The limits in which the task has released its slot while it waits for its children."""
        self.refusals = run.refusals
        """By task id: the error that a task received because its run is over. See `liveness.note_refusal`."""
        self._counters: TaskCounters | None = None
        """The counters of the task, which all copies share. Before their first use this is None, or the counters of the
        scope's previous task."""

    def enter_sibling(self, task: Task, index: int) -> Scope:
        """Create and enter the scope of one of several concurrent tasks, in the current context, and return it."""
        scope = Scope(self.run, task, self.checkpoint)
        scope.sibling_group, scope.index, scope.held_slots = self.sibling_group, index, self.held_slots
        enter_scope(scope)
        return scope

    def copy(self) -> Scope:
        """Return a copy, which stays with the current task and attempt when this scope moves on."""
        scope = Scope(self.run, self.task, self.checkpoint)
        scope.attempt, scope.held_slots, scope.refusals = self.attempt, self.held_slots, self.refusals
        scope._counters = self.counters()
        return scope

    def copy_sharing_slots(self) -> Scope:
        """Return a copy for code that acts for the task elsewhere, e.g. on another thread.

        The original will release the slots.
        """
        copy = self.copy()
        copy.shares_slots = True
        return copy

    @contextmanager
    def enter_step(self, key: JournalKey) -> Generator[Scope]:
        """During the block, enter a scope for the function of a step, which has a task of its own (`CalledTask`).

        Steps inside the function must not advance the counters of the calling task, because a replay does not call the
        function.
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
        """True if the task occupies slots, or is waiting for a child and may have released them."""
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
        """Record that a child has ended, and return the slots to acquire again: none while another child is awaited."""
        self.awaited_child_count -= 1
        if self.awaited_child_count:
            return ()
        with _slots_lock:
            slots, self.suspended_slots = self.suspended_slots, ()
        return slots

    def skip_slot(self, slots: Slots) -> None:
        """Continue without a slot that was released before waiting for a child."""
        if self.shares_slots:  # the original will release the slot a second time
            slots.overdraw()

    def detach(self) -> None:
        """End the use of a copy that shares the slots of its original.

        If the copy has released slots and not acquired them again, they are overdrawn, because the original will
        release them a second time.
        """
        with _slots_lock:
            suspended, self.suspended_slots, self.held_slots = self.suspended_slots, (), ()
        for slots in suspended:
            slots.overdraw()

    def drop_suspended_slots(self) -> None:
        """Continue without the slots that were released before waiting for a child.

        For finalisers, which must not wait for slots.
        """
        self.awaited_child_count -= 1
        if not self.awaited_child_count:
            if self.shares_slots and self.suspended_slots:
                workers.hand_over(self.detach)
            else:
                self.suspended_slots = ()

    def begin_attempt(self, attempt: Attempt) -> None:
        """Begin an attempt, and enter the scope for it in the current context."""
        self.attempt = attempt
        self.reset_counters()
        enter_scope((self, self.task, self.checkpoint, attempt))

    def reset_counters(self) -> None:
        """Reset the counters, because the task is executed again."""
        self._counters = None

    def end_attempts(self) -> None:
        """Record that a task with policies has ended, and makes no further attempt."""
        if self.sibling_group is None:  # the scope will be reused for the next task, which has no attempt yet
            self.attempt = None

    @property
    def abandoned(self) -> bool:
        """True if nothing waits for the outcome any more: the attempt at this task, or at a calling one, has ended."""
        current: CallingTask | None = self
        while current is not None:
            if current.attempt is not None and current.attempt.is_over_for(current.task):
                return True
            current = current.run.parent
        return False

    def reset_idle_timeout(self, value: object = None) -> None:
        """Reset the idle timeout of the attempt and of its outer attempts, unless only explicit heartbeats reset it.

        `value` is ignored, so that this can be used as a stream writer.
        """
        attempt = self.attempt
        while attempt is not None and not attempt.has_ended_for(self.task):
            if not attempt.heartbeat_only:
                attempt.beat()
            attempt = attempt.outer

    def heartbeat(self) -> None:
        """Reset the idle timeouts of the task and of all calling tasks, up to the first whose attempt has ended."""
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
        """Return what identifies the next question of the task: its key, or its ordinal if `key` is None."""
        if key is not None and not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidUpdateError(f"The key {key!r} of a question is of type {type(key).__name__}. Pass a string.")
        return self.next_position("") if key is None else self.use_key("interrupt key", key)

    def use_key(self, kind: str, key: str) -> str:
        """Record and return a key. Raises InvalidUpdateError if the task has already used the same kind of key with it.

        `kind` is the name of the parameter in errors, such as `call_key`.
        """
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
    """Run the block in a nested attempt, which can time out without ending the attempt at the node.

    Yields the nested attempt, or None outside a node. Set its `abandoned` to True to reject the side effects of code
    that is still running after a timeout.
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
    """Return the ids of the steps, `@task` calls and tasks around the running code, the innermost first.

    A child run must be stored together with whichever of these is saved first, because once that is saved, a replay
    does not execute the code again.
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
"""A scope, and the task, checkpoint and attempt for which it was entered."""

_current: ContextVar[Scope | EnteredScope | None] = ContextVar("statewright_scope", default=None)
enter_scope = _current.set
leave_scope = _current.reset


def current_scope() -> Scope | None:
    """Return the scope of the running code, or None outside a run.

    Threads and asyncio tasks that outlive a node keep its context. To them this returns a scope of the finished task or
    attempt.
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


def observed_scope() -> Scope | None:
    """Return the scope of the running code for logs and traces: None in a worker process, unlike `current_scope`.

    There a node has a stand-in for its scope, which refuses any use: see `worker_host.WorkerScope`.
    """
    scope = current_scope()
    return scope if isinstance(scope, Scope) else None


def leave_anywhere(token: Token[Scope | EnteredScope | None]) -> None:
    """Leave a scope, unless that is impossible: an abandoned stream may be closed twice, or in another context."""
    try:  # noqa: SIM105  # `suppress` costs as much as a superstep
        leave_scope(token)
    except (ValueError, RuntimeError):
        pass
