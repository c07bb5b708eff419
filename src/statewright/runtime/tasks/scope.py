"""The task that the running code belongs to, as a context variable.

A run has one scope object for all tasks that run one after another, and sets its attributes for each task, because a
new object per superstep would cost more. Tasks that run concurrently get their own scopes and contexts.

Code may outlive its task, because a node may start threads, or keep a reference to its `Runtime`. So the context
variable stores not only the reused scope, but also the task for which the scope was entered (`EnteredScope`). If the
scope has moved on to another task, `current_scope` returns a scope of the finished task instead, through which side
effects are rejected.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, Protocol, cast

from statewright.checkpoint import NO_ARG, Checkpoint, JournalKey, Task, step_id
from statewright.errors import InvalidUpdateError
from statewright.ids import TaskId
from statewright.runtime.concurrency.worker_threads import Cleanup, workers
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Outcome
from statewright.runtime.invocation.run import CallingTask, Run

_slots_lock = threading.Lock()
"""Held while slots are moved out of `held_slots` or `slots_to_reacquire`, so that no two threads release or overdraw
the same slot. One lock serves all scopes: it costs nothing per task, and is held only briefly. It does not protect
`awaited_child_count`, nor slots that are added to `held_slots`: only the code of the task changes these."""


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


class CallNumbering:
    """The ordinals and keys that one execution of a task has used.

    The ids of its steps, interrupts, child runs and calls derive from them.
    """

    __slots__ = ("failed_ordinals", "ordinals", "starts_over", "task", "unkeyed_calls", "used_keys")

    def __init__(self, task: Task | None) -> None:
        self.task = task
        self.unkeyed_calls = 0
        """The number of subgraph calls without a `call_key` so far."""
        self.ordinals: dict[str, int] = {}
        """By name: the number of steps and `@task` calls so far. Child runs without a key have the name `start_run`,
        and questions without a key the empty name."""
        self.used_keys: set[tuple[str, str]] = set()
        """The keys that user code has passed, as pairs (kind of key, key)."""
        self.failed_ordinals: dict[tuple[str, str], list[int]] = {}
        """By name and argument fingerprint: the ordinals of failed steps, sorted."""
        self.starts_over: dict[tuple[object, ...], bool] = {}
        """The subgraph calls that may be retried, by retry key: True if a retry starts over (the call has failed),
        False if it continues (the call was cancelled)."""

    def next_ordinal(self, name: str, args_hash: str) -> int:
        """Return the ordinal of the next call. The ordinal of a failed call with the same name and arguments is reused.

        A node may retry a failed step itself. Failures are not recorded. So when the node is executed again, its first
        call must find the result of the successful retry, under the same ordinal.
        """
        failed = self.failed_ordinals.get((name, args_hash))
        return failed.pop(0) if failed else self.new_ordinal(name)

    def new_ordinal(self, name: str) -> int:
        """Return the next unused ordinal of a name. Ordinals are counted from 0."""
        ordinal = self.ordinals.get(name, 0)
        self.ordinals[name] = ordinal + 1
        return ordinal

    def note_failed(self, name: str, args_hash: str, ordinal: int) -> None:
        """Record that a call has failed, so that a retry with the same name and arguments reuses its ordinal."""
        insort(self.failed_ordinals.setdefault((name, args_hash), []), ordinal)


class Scope:
    """The task that is being executed, with its run, its attempt and its slots of concurrency limits."""

    __slots__ = (
        "_numbering",
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
        "slots_to_reacquire",
        "task",
    )

    def __init__(self, run: Run, task: Task | None = None, checkpoint: Checkpoint | None = None) -> None:
        self.run = run
        self.sibling_group: SiblingGroup | None = None
        """The executor that receives the outcome of the task; None if the tasks of this scope run one after
        another: lone tasks and inline tasks."""
        self.index = 0
        """The index of the task in its superstep."""
        self.fast_path = run.program.allows_fast_path and run.emitter is None
        """True if executing a task means no more than reading the input, calling the node and reading its answer: there
        are no events, computed fields or error handlers."""
        self.task = task
        """The task that is being executed; None before the first one."""
        self.checkpoint = checkpoint
        """The checkpoint from which the superstep started."""
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
        """True for a copy of a scope. Both list the same slots, and the original releases all of them at the end. So a
        slot that the copy has released and not acquired again must be overdrawn."""
        self.awaited_child_count = 0
        """The number of children (subgraphs and `@task` calls) that the task is waiting for."""
        self.held_slots: Sequence[Slots] = ()
        """The limits in which the task occupies a slot. It releases its slots while it waits for its children."""
        self.slots_to_reacquire: Sequence[Slots] = ()
        """The limits in which the task has released its slot while it waits for its children."""
        self.refusals = run.refusals
        """By task id: the error that a task received because its run is over. See `liveness.note_refusal`. A `@task`
        call has a dict of its own, because another run may take it over."""
        self._numbering: CallNumbering | None = None
        """The numbering of the task's calls, which all copies share. Before its first use this is None, or the
        numbering of the scope's previous task."""

    def enter_sibling(self, group: SiblingGroup, task: Task, index: int) -> Scope:
        """Create and enter the scope of one of several concurrent tasks, in the current context, and return it.

        Executors keep this scope for all of its siblings. It must not refer back to them: as a cycle, the tasks and
        results of a superstep would stay in memory until the garbage collector finds them.
        """
        scope = Scope(self.run, task, self.checkpoint)
        scope.sibling_group, scope.index, scope.held_slots = group, index, self.held_slots
        enter_scope(scope)  # never left: the context ends with the task
        return scope

    def pinned_copy(self) -> Scope:
        """Return a scope for the same task and attempt, which stays with them when this scope moves on.

        Not copied: what only the executor of the task uses, and the state of waiting for children.
        """
        scope = Scope(self.run, self.task, self.checkpoint)
        scope.attempt, scope.held_slots, scope.refusals = self.attempt, self.held_slots, self.refusals
        scope._numbering = self.numbering()
        return scope

    def copy_sharing_slots(self) -> Scope:
        """Return a copy for code that acts for the task elsewhere, e.g. on another thread. See `shares_slots`."""
        copy = self.pinned_copy()
        copy.shares_slots = True
        return copy

    def enter_step(self, key: JournalKey) -> AbstractContextManager[Scope]:
        """During the block, enter a scope for the function of a step, which has a task of its own (`CalledTask`).

        Steps inside the function must not use ordinals of the calling task, because a replay does not call the
        function.
        """
        step_scope = self.copy_sharing_slots()
        step_scope.task = CalledTask(cast(Task, self.task), key)
        return enter_copy(step_scope)

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
                # Not empty if the task is still acquiring slots after an earlier wait.
                self.slots_to_reacquire = (*self.slots_to_reacquire, *released)
            for slots in released:
                slots.release()

    def end_wait(self) -> Sequence[Slots]:
        """End the wait for a child. Return the limits in which to acquire a slot again.

        There are none while another child is awaited.
        """
        self.awaited_child_count -= 1
        if self.awaited_child_count:
            return ()
        with _slots_lock:
            slots, self.slots_to_reacquire = self.slots_to_reacquire, ()
        return slots

    def skip_slot(self, slots: Slots) -> None:
        """Continue without a slot that was released before waiting for a child."""
        if self.shares_slots:
            slots.overdraw()

    def detach(self) -> None:
        """End the use of a copy that shares the slots of its original."""
        with _slots_lock:
            released, self.slots_to_reacquire, self.held_slots = self.slots_to_reacquire, (), ()
        for slots in released:
            slots.overdraw()

    def drop_suspended_slots(self) -> None:
        """Continue without the slots that were released before waiting for a child.

        For finalisers, which must not wait for slots.
        """
        self.awaited_child_count -= 1
        if not self.awaited_child_count:
            if self.shares_slots and self.slots_to_reacquire:
                workers.hand_over(self.detach)  # a finaliser must not take a lock
            else:
                self.slots_to_reacquire = ()

    def begin_attempt(self, attempt: Attempt) -> None:
        """Begin an attempt, and enter the scope for it in the current context."""
        self.attempt = attempt
        self.slots_to_reacquire = ()  # what is left if code of the previous attempt still waits for a child
        self.reset_numbering()
        enter_reused_scope((self, self.task, self.checkpoint, attempt))  # never left: the driver leaves its own entry

    def reset_numbering(self) -> None:
        """Number calls from the beginning, because the task is executed again."""
        self._numbering = None

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
        """Reset the idle timeout of the attempt and of its outer attempts, after a sign of life other than a heartbeat.

        The calling tasks are not reset: to them, the call of a subgraph is one sign of life, whatever happens in it.
        `value` is ignored, so that this can be used as a stream writer.
        """
        _beat(self, is_heartbeat=False)

    def heartbeat(self) -> None:
        """Reset the idle timeouts of the task and of all calling tasks, up to the first whose attempt has ended."""
        current: CallingTask | None = self
        while current is not None and _beat(current, is_heartbeat=True):
            current = current.run.parent

    def next_question(self, key: str | None) -> int | str:
        """Return what identifies the next question of the task: its key, or its ordinal if `key` is None."""
        if key is not None and not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidUpdateError(f"The key {key!r} of a question is of type {type(key).__name__}. Pass a string.")
        return self.numbering().new_ordinal("") if key is None else self.use_key("interrupt key", key)

    def use_key(self, kind: str, key: str) -> str:
        """Record and return a key. Raises InvalidUpdateError if the task has already used this key of this kind.

        `kind` describes the key in errors, such as `interrupt key`.
        """
        used_keys = self.numbering().used_keys
        if (kind, key) in used_keys:
            node = self.task.node if self.task else None
            raise InvalidUpdateError(f"Node {node!r} used the {kind} {key!r} twice. Use a different key for each call.")
        used_keys.add((kind, key))
        return key

    def numbering(self) -> CallNumbering:
        """Return the numbering of calls in the current execution."""
        numbering = self._numbering
        if numbering is None or numbering.task is not self.task:
            self._numbering = numbering = CallNumbering(self.task)
        return numbering


def _beat(caller: CallingTask, *, is_heartbeat: bool) -> bool:
    """Reset the idle timeouts of a task's attempt and its outer attempts, up to the first that has ended.

    Attempts that only accept heartbeats are left out, unless this is one. Return False if an attempt has ended.
    """
    attempt = caller.attempt
    while attempt is not None:
        if attempt.has_ended_for(caller.task):
            return False
        if is_heartbeat or not attempt.heartbeat_only:
            attempt.beat()
        attempt = attempt.outer
    return True


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
    with enter_copy(inner_scope):
        yield inner_scope.attempt


@contextmanager
def enter_copy(scope: Scope) -> Generator[Scope]:
    """During the block, enter a copy that shares the slots of its original."""
    token = enter_scope(scope)
    with Cleanup(scope.detach):
        try:
            yield scope
        finally:
            leave_if_possible(token)


def enclosing_task_ids(scope: Scope) -> Sequence[TaskId]:
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


EnteredScope = tuple[Scope, Task | None, Checkpoint | None, Attempt | None]
"""A scope, and the task, checkpoint and attempt for which it was entered."""

_current: ContextVar[Scope | EnteredScope | None] = ContextVar("statewright_scope", default=None)
ScopeToken = Token[Scope | EnteredScope | None]

enter_scope: Final[Callable[[Scope | None], ScopeToken]] = _current.set
"""Enter a scope that belongs to a single task, or the scope of a run between its tasks."""
enter_reused_scope: Final[Callable[[EnteredScope], ScopeToken]] = _current.set
"""Enter the scope of a run for one of its tasks. Code that outlives the task is then recognised by `current_scope`."""
leave_scope: Final[Callable[[ScopeToken], None]] = _current.reset


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


@contextmanager
def restoring_scope() -> Generator[None]:
    """Leave all scopes that are entered in the block. A signal handler may have interrupted `leave_scope`."""
    entered = _current.get()
    try:
        yield
    finally:
        if _current.get() is not entered:
            _current.set(entered)


def leave_if_possible(token: ScopeToken) -> None:
    """Leave a scope.

    Does nothing if the token was already used or belongs to another context, as when an abandoned stream or coroutine
    is closed.
    """
    try:  # noqa: SIM105  # `suppress` costs as much as a superstep
        leave_scope(token)
    except (ValueError, RuntimeError):
        pass
