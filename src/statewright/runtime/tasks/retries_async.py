"""Perform the effects of `retries.attempt_task` on an event loop: the asynchronous version of `retries_sync`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, cast

from statewright.async_futures import adrive, aresolve
from statewright.checkpoint import Checkpoint, Task, TimeLimit
from statewright.clock import Clock, Timer, uses_system_timers
from statewright.errors import NodeCancelledError, NodeTimeoutError
from statewright.runtime.concurrency.worker_threads import Cleanup, workers
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.claim import Ticket
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.tasks.execute import begin_task, conclude_task, injected_kwargs, state_args
from statewright.runtime.tasks.execute_async import call_function, conclude_task_async, is_cancelled_by_run
from statewright.runtime.tasks.liveness import reason_to_stop_waiting, wake_at_end
from statewright.runtime.tasks.retries import (
    AcquireSlot,
    AttemptResult,
    AwaitReply,
    TaskEffect,
    Try,
    Wait,
    attempt_task,
    cancellation_error,
    next_timeout,
    settle_outside_node,
)
from statewright.runtime.tasks.retries_sync import try_once
from statewright.runtime.tasks.scope import Scope, SiblingGroup, enter_scope


async def perform_attempts_async(
    scope: Scope,
    node: NodeProgram,
    task: Task,
    checkpoint: Checkpoint,
    group: SiblingGroup | None = None,
    index: int = 0,
) -> Any:
    """Run a task with policies on the event loop.

    Return its outcome; None if it runs concurrently with others in `group`, which gets the outcome instead.
    """
    if group is not None:
        scope = scope.enter_sibling(group, task, index)

    async def perform_effect(effect: TaskEffect) -> Any:
        if type(effect) is Try:
            return await _try(scope, node, task, checkpoint, effect.timeout)
        return await perform_wait_async(scope, effect)

    try:
        outcome = await adrive(attempt_task(scope, node, task, checkpoint), perform_effect)
    except asyncio.CancelledError as error:
        if is_cancelled_by_run(scope):
            raise
        outcome = settle_outside_node(scope, node, task, NodeCancelledError(node.name, error))
    except GeneratorExit:  # the coroutine is dropped, maybe in a finaliser: no other work is allowed here
        raise
    except BaseException as error:
        outcome = settle_outside_node(scope, node, task, error)
    finally:
        scope.end_attempts()
    return outcome if scope.sibling_group is None else scope.sibling_group.report_end(scope, outcome)


async def perform_wait_async(scope: Scope, effect: TaskEffect) -> Any:
    """Perform an effect that makes a task wait: for time, a slot, or a reply."""
    if type(effect) is Wait:
        return await wait_async(scope, effect.seconds)
    if type(effect) is AcquireSlot:
        return await acquire_slot_async(effect.slots, scope)
    return await aresolve(cast(AwaitReply, effect).reply)


async def await_outcome(awaitable: Awaitable[Any], deadline: Deadline | None, wrap: Callable[[Any], Any]) -> Any:
    """Await within a deadline, and return `wrap` of the result, or the exception that was raised."""
    try:
        with deadline if deadline is not None else nullcontext():
            return wrap(await awaitable)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return error


async def _try(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, timeout: TimeLimit | None
) -> AttemptResult:
    """Return the result of one call of the node, or the exception that it raised."""
    try:
        if timeout is None:
            return await _call_once(scope, node, task, checkpoint)
        with Deadline(cast(Attempt, scope.attempt), timeout, node.name, begins_later=node.remote is not None):
            return await _call_once(scope, node, task, checkpoint)
    except asyncio.CancelledError as error:
        if is_cancelled_by_run(scope):
            raise
        return NodeCancelledError(node.name, error)
    except GeneratorExit:  # the coroutine is dropped, maybe in a finaliser: no other work is allowed here
        raise
    except BaseException as error:
        return error


async def _call_once(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> AttemptResult:
    if node.sync_lane == "inline":
        return try_once(scope, node, task, checkpoint)
    if node.acall is None and not node.has_async_routes:
        return await _call_in_thread(scope, node, task, checkpoint)
    state = begin_task(scope, node, task, checkpoint)
    args, kwargs = state_args(node, state), injected_kwargs(node.injected, scope)
    if node.acall is None:
        answer = await call_function(scope, node.call, *args, **kwargs)
    else:
        answer = await node.acall(*args, **kwargs)
    if node.has_async_routes:
        return await conclude_task_async(scope, node, task, checkpoint, answer)
    return conclude_task(scope, node, task, checkpoint, answer)


async def _call_in_thread(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> AttemptResult:
    # A copy, because an abandoned attempt may keep running while the scope is used for the next attempt.
    thread_scope = scope.copy_sharing_slots()
    threads = scope.sibling_group.threads if scope.sibling_group is not None else None
    if threads is None:
        return await _try_in_thread(scope, thread_scope, node, task, checkpoint)
    if not await acquire_slot_async(threads, scope):
        return cancellation_error(scope)
    with Cleanup(threads.release):
        return await _try_in_thread(scope, thread_scope, node, task, checkpoint)


async def _try_in_thread(
    scope: Scope, thread_scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint
) -> AttemptResult:
    with Cleanup(thread_scope.detach):
        try:
            return await call_function(scope, _enter_and_try, thread_scope, node, task, checkpoint)
        finally:
            scope.input = thread_scope.input


def _enter_and_try(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> AttemptResult:
    enter_scope(scope)
    return try_once(scope, node, task, checkpoint)


class Deadline:
    """Context manager that cancels an attempt when its time limit expires, and then raises NodeTimeoutError.

    Like `asyncio.timeout`, it cancels the asyncio task that has entered it. A coroutine that catches CancelledError
    keeps running, but its result is ignored.
    """

    __slots__ = (
        "_attempt",
        "_begins_later",
        "_error",
        "_has_ended",
        "_loop",
        "_node",
        "_requests_before",
        "_started_at",
        "_task",
        "_timeout",
        "_timer",
    )

    def __init__(self, attempt: Attempt, timeout: TimeLimit, node: str, *, begins_later: bool = False) -> None:
        """With `begins_later` the limit counts from the time that `attempt.on_begin` is called."""
        self._attempt = attempt
        self._begins_later = begins_later
        self._timer: Timer | None = None
        self._timeout = timeout
        self._node = node
        self._error: Exception | None = None
        """The error to raise at the end of the block, once the time limit has expired."""
        self._has_ended = False

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._requests_before = self._task.cancelling()
        if self._begins_later:
            self._attempt.on_begin = self._begin
        else:
            self._begin()

    def _begin(self) -> None:
        """Start the time limit; again, if the call has to be repeated because its worker has died."""
        if self._has_ended or self._error is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._started_at = self._attempt.clock.monotonic()
        self._set_timer()

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._has_ended = True  # `_check` may be scheduled already, and must not cancel what the task does next
        if self._timer is not None:
            self._timer.cancel()
        if self._error is None:
            return
        is_also_cancelled = self._task.uncancel() > self._requests_before
        if is_also_cancelled and isinstance(error, asyncio.CancelledError):
            return
        raise self._error from error

    def _set_timer(self) -> None:
        clock = self._attempt.clock
        due, _, _ = next_timeout(self._attempt, self._timeout, self._started_at)
        self._timer = call_later(self._loop, clock, due - clock.monotonic(), self._check)
        if not uses_system_timers(clock) and due <= clock.monotonic():
            self._loop.call_soon(self._check)  # in a test, another thread may have advanced the clock before this

    def _check(self) -> None:
        """Cancel the attempt, or set the timer again if a heartbeat has moved the deadline."""
        if self._has_ended or self._error is not None:
            return
        try:
            due, kind, limit = next_timeout(self._attempt, self._timeout, self._started_at)
            if self._attempt.clock.monotonic() < due:
                if self._timer is not None:
                    self._timer.cancel()
                self._set_timer()
                return
            self._error = NodeTimeoutError(self._node, kind, limit)
        except Exception as error:  # raised by the clock, so no further check would be scheduled
            self._error = error
        self._attempt.abandoned = True
        self._task.cancel()


def call_later(loop: asyncio.AbstractEventLoop, clock: Clock, seconds: float, callback: Callable[[], object]) -> Timer:
    """Call `callback` on the event loop after a number of seconds, measured by `clock`."""
    if uses_system_timers(clock):
        return loop.call_later(seconds, callback)

    def forward() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    return clock.call_later(seconds, forward)


async def wait_for_ticket(clock: Clock, seconds: float, ticket: Ticket) -> None:
    """Wait on the event loop until the ticket is woken, or a number of seconds has passed."""
    with _alarm(clock, seconds) as (woken, wake):
        ticket.on_wake = wake
        try:
            if ticket.woken.is_set():
                wake()
            await woken
        finally:
            ticket.on_wake = None


async def wait_async(scope: Scope, seconds: float) -> bool:
    """Wait on the event loop. Return False if the task must stop waiting."""
    with _alarm(scope.run.ports.clock, seconds) as (woken, wake), wake_at_end(scope, wake):
        await woken
    return reason_to_stop_waiting(scope) is None


@contextmanager
def _alarm(clock: Clock, seconds: float) -> Generator[tuple[asyncio.Future[None], Callable[[], object]]]:
    """Yield a future that is completed after a number of seconds, and a function that completes it earlier.

    The function may be called from any thread.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = call_later(loop, clock, seconds, wake)
    try:
        yield woken, lambda: loop.call_soon_threadsafe(wake)
    finally:
        timer.cancel()


@asynccontextmanager
async def suspended_slots_async(scope: Scope) -> AsyncGenerator[None]:
    """Do the same as `suspended_slots` on the event loop."""
    scope.suspend_slots()
    try:
        yield
    except GeneratorExit:  # the coroutine is dropped, and must not wait for a slot
        scope.drop_suspended_slots()
        raise
    except BaseException:
        await _resume_slots(scope)
        raise
    else:
        await _resume_slots(scope)


async def _resume_slots(scope: Scope) -> None:
    for slots in scope.end_wait():
        if await acquire_slot_async(slots, scope):
            scope.held_slots = (*scope.held_slots, slots)
        else:  # the run is over, and the task has no further effect
            scope.skip_slot(slots)


async def acquire_slot_async(slots: Slots, scope: Scope) -> bool:
    """Wait for a slot on the event loop. Return False if the task must stop waiting."""
    loop = asyncio.get_running_loop()
    waiter = _CoroutineWaiter(slots, loop)
    if slots.acquire(waiter.offer):
        return True
    try:
        with wake_at_end(scope, lambda: loop.call_soon_threadsafe(waiter.end)):
            has_slot = await waiter.granted
    except BaseException:  # also GeneratorExit: a coroutine that was dropped must not be offered a slot
        waiter.leave()
        raise
    if has_slot and reason_to_stop_waiting(scope) is not None:
        slots.release()
        return False
    return has_slot


class _CoroutineWaiter:
    """A coroutine that waits for a slot, until it gets one or leaves."""

    __slots__ = ("_is_offered", "_loop", "_slots", "granted")

    def __init__(self, slots: Slots, loop: asyncio.AbstractEventLoop) -> None:
        self._slots = slots
        self._loop = loop
        self._is_offered = False
        self.granted: asyncio.Future[bool] = loop.create_future()
        """Completed with True when the coroutine gets a slot, or with False when it no longer needs one."""

    def offer(self) -> bool:
        """Accept a slot, or return False if the coroutine no longer waits. Called from any thread."""
        if self.granted.done():
            return False
        try:
            self._loop.call_soon_threadsafe(self._accept)
        except RuntimeError:  # the loop is closed, so the coroutine no longer exists
            return False
        self._is_offered = True
        return True

    def _accept(self) -> None:
        if self.granted.done():  # the coroutine left after `offer` had accepted the slot for it
            self._slots.release()
        else:
            self.granted.set_result(True)

    def end(self) -> None:
        """Stop waiting without a slot."""
        if not self.granted.done():
            self.granted.set_result(False)

    def leave(self) -> None:
        """Stop waiting, and release the slot if it was already granted."""
        if self.granted.done():
            has_slot = not self.granted.cancelled() and self.granted.result()
        else:  # a loop that was closed after it had accepted the slot never calls `_accept`
            has_slot = self._is_offered and self._loop.is_closed()
        if has_slot:
            workers.hand_over(self._slots.release)  # handed over, because this may run in a finaliser
        self.granted.cancel()
