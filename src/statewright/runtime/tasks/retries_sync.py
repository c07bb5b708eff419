"""Perform the effects of `retries.attempt_task` with plain calls, on the driver's thread or on a worker thread."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, cast

from statewright.checkpoint import Checkpoint, Task, TimeLimit
from statewright.clock import wait_until
from statewright.errors import NodeTimeoutError, RunCancelled
from statewright.futures import SafeEvent, drive, resolve
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Outcome
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.execute import begin_task, conclude_task, execute_task, injected_kwargs, state_args
from statewright.runtime.tasks.liveness import reason_to_refuse, reason_to_stop_waiting, wake_at_end
from statewright.runtime.tasks.retries import (
    AcquireSlot,
    AttemptResult,
    AwaitReply,
    TaskEffect,
    Try,
    Wait,
    attempt_task,
    next_timeout,
    settle_outside_node,
)
from statewright.runtime.tasks.scope import Scope, enter_scope

T = TypeVar("T")


def select_perform(run: Run) -> Callable[[Scope, NodeProgram, Task, Checkpoint], Outcome]:
    """Return the function that executes the tasks of a run, according to the policies of each."""

    def perform_any(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
        return (execute_task if node.policies is None else perform_attempts)(scope, node, task, checkpoint)

    return perform_attempts if run.all_tasks_need_attempts else perform_any


def perform_attempts(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Outcome:
    """Run a task with policies, whose node is a plain function."""

    def perform_effect(effect: TaskEffect) -> Any:
        if type(effect) is not Try:
            return perform_wait(scope, effect)
        if effect.timeout is None:
            return try_once(scope, node, task, checkpoint)
        return _try_with_timeout(scope, node, task, checkpoint, effect.timeout)

    try:
        return drive(attempt_task(scope, node, task, checkpoint), perform_effect)
    except BaseException as error:
        return settle_outside_node(scope, node, task, error)
    finally:
        scope.end_attempts()


def perform_wait(scope: Scope, effect: TaskEffect) -> Any:
    """Perform an effect that makes a task wait: for time, a slot, or a reply."""
    if type(effect) is Wait:
        return wait(scope, effect.seconds)
    if type(effect) is AcquireSlot:
        return acquire_slot(effect.slots, scope)
    return resolve(cast(AwaitReply, effect).reply)


def try_once(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> AttemptResult:
    """Return the result of one call of a plain function, or the exception that it raised."""
    try:
        state = begin_task(scope, node, task, checkpoint)
        answer = node.call(*state_args(node, state), **injected_kwargs(node.injected, scope))
        return conclude_task(scope, node, task, checkpoint, answer)
    except BaseException as error:
        return error


def wait(scope: Scope, seconds: float) -> bool:
    """Block this thread for a number of seconds. Return False if the task must stop waiting."""
    woken = SafeEvent()  # a signal handler may cancel the run
    with wake_at_end(scope, woken.set):
        scope.run.ports.clock.wait(woken, seconds)
    return reason_to_stop_waiting(scope) is None


# -- slots of concurrency limits


def acquire_slot(slots: Slots, scope: Scope) -> bool:
    """Block this thread until a slot is acquired. Return False if the task must stop waiting.

    If a coroutine has called a graph with plain `invoke`, an event loop is running on this thread, and the task that
    holds the slot may need that loop. So there a task does not wait for a slot of the run's own limits, and
    `max_concurrency` is exceeded for a moment.
    """
    waiter = _ThreadWaiter()
    if slots.acquire(waiter.offer):
        return True
    if slots in scope.run.slots and _blocks_a_loop():
        if not waiter.leave():
            slots.overdraw()
        return True
    try:
        with wake_at_end(scope, waiter.woken.set):
            waiter.woken.wait()
    except BaseException:
        if waiter.leave():
            slots.release()
        raise
    if not waiter.leave():
        return False
    if reason_to_stop_waiting(scope) is not None:
        slots.release()
        return False
    return True


class _ThreadWaiter:
    """A thread that waits for a slot, until it gets one or leaves."""

    __slots__ = ("_has_left", "_has_slot", "_lock", "woken")

    def __init__(self) -> None:
        self.woken = SafeEvent()  # a signal handler may cancel the run
        self._lock = threading.Lock()
        self._has_slot = False
        self._has_left = False

    def offer(self) -> bool:
        """Accept a slot, or return False if the thread no longer waits. Called by the thread that releases the slot."""
        with self._lock:
            if self._has_left:
                return False
            self._has_slot = True
        self.woken.set()
        return True

    def leave(self) -> bool:
        """Stop waiting, and return whether the thread has got a slot."""
        with self._lock:
            self._has_left = True
            return self._has_slot


def _blocks_a_loop() -> bool:
    """Return whether an event loop is running on this thread: then a coroutine has called a blocking function."""
    if "asyncio" not in sys.modules:
        return False
    from statewright.async_futures import is_on_loop

    return is_on_loop()


@contextmanager
def suspended_slots(scope: Scope) -> Generator[None]:
    """During the block, release the slots of a task, because it waits there for its children.

    They may need the slots, so the task would otherwise wait forever.
    """
    scope.suspend_slots()
    try:
        yield
    except GeneratorExit:  # maybe in a finaliser, which must not wait for a slot
        scope.drop_suspended_slots()
        raise
    except BaseException:
        _resume_slots(scope)
        raise
    else:
        _resume_slots(scope)


def _resume_slots(scope: Scope) -> None:
    for slots in scope.end_wait():
        if acquire_slot(slots, scope):
            scope.held_slots = (*scope.held_slots, slots)
        else:  # the run is over, and the task has no further effect
            scope.skip_slot(slots)


# -- timeouts: the call is made on another thread


def _try_with_timeout(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, timeout: TimeLimit
) -> AttemptResult:
    """Return the result of one call of a plain function.

    It is called on another thread, so that waiting for it can time out.
    """
    thread_scope = scope.copy_sharing_slots()
    result = call_with_timeout(
        scope, thread_scope, node.name, timeout, lambda: try_once(thread_scope, node, task, checkpoint)
    )
    scope.input = thread_scope.input
    return result


def call_with_timeout(
    scope: Scope,
    thread_scope: Scope,
    name: str,
    timeout: TimeLimit,
    function: Callable[[], T],
    *,
    outlives_run: bool = False,
) -> T | NodeTimeoutError | RunCancelled:
    """Call a function on another thread, in `thread_scope`. Return its result, or the error that ended the wait for it.

    The wait ends at the timeout, or when the run is over. With `outlives_run` it ends only at the timeout, because
    another attempt, or a later run, may take the call over. `name` names the function in errors.
    """
    attempt = cast(Attempt, scope.attempt)
    woken = SafeEvent()  # a signal handler may cancel the run
    results: list[T] = []

    def call() -> None:
        enter_scope(thread_scope)
        results.append(function())
        woken.set()

    started_at = attempt.clock.monotonic()
    context = contextvars.copy_context()
    workers.submit(lambda: context.run(call))
    with wake_at_end(scope, woken.set) if not outlives_run else nullcontext():
        while not results:
            due, kind, limit = next_timeout(attempt, timeout, started_at)
            reason = reason_to_refuse(scope) if not outlives_run else None
            if reason is not None or due <= attempt.clock.monotonic():
                attempt.abandoned = True
                thread_scope.detach()
                if results:
                    break
                return RunCancelled(reason) if reason is not None else NodeTimeoutError(name, kind, limit)
            wait_until(attempt.clock, woken, due)
            woken.clear()
    return results[0]
