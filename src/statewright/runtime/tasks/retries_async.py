"""Perform the attempts at a task on an event loop: the asynchronous version of `retries.perform_guarded`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from types import TracebackType
from typing import Any, cast

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpoint, Task, TimeLimit
from statewright.clock import Clock, SystemClock, Timer
from statewright.errors import NodeCancelledError, NodeTimeoutError
from statewright.runtime.concurrency.worker_threads import Cleanup, workers
from statewright.runtime.core.program import NodeProgram
from statewright.runtime.invocation.attempt import Attempt
from statewright.runtime.invocation.claim import Ticket
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.tasks.execute import asked, begin, conclude, given
from statewright.runtime.tasks.execute_async import call_function, conclude_async, is_cancelled_by_run
from statewright.runtime.tasks.retries import (
    Ask,
    Take,
    TaskEffect,
    Tried,
    Try,
    Wait,
    attempts,
    cancelled,
    failed_around,
    next_timeout,
    tried,
)
from statewright.runtime.tasks.scope import Scope, enter_scope
from statewright.runtime.tasks.standing import reason_to_wait_no_more, woken_by_the_end


async def perform_guarded_async(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, place: int = 0
) -> Any:
    """Run a task with policies. Return its outcome, or pass it to the superstep if it runs concurrently with others."""
    if scope.sibling_group is not None:
        scope = scope.enter_apart(task, place)
    core = attempts(scope, node, task, checkpoint)
    answer: Any = None
    try:
        while True:
            try:
                effect = core.send(answer)
            except StopIteration as stopped:
                outcome = stopped.value
                break
            if type(effect) is Try:
                answer = await _tried(scope, node, task, checkpoint, effect.timeout)
            else:
                answer = await perform_waiting(scope, effect)
    except asyncio.CancelledError as error:
        if is_cancelled_by_run(scope):
            raise
        core.close()
        outcome = failed_around(scope, node, task, NodeCancelledError(node.name, error))
    except GeneratorExit:  # the coroutine is dropped, maybe in a finaliser: nothing may be done here
        raise
    except BaseException as error:
        core.close()  # what it holds is free before anybody hears of the error
        outcome = failed_around(scope, node, task, error)
    finally:
        core.close()
        scope.end_attempts()
    return outcome if scope.sibling_group is None else scope.sibling_group.ended(scope, outcome)


async def perform_waiting(scope: Scope, effect: TaskEffect) -> Any:
    """Perform what makes a task wait: time, a slot, or an answer."""
    if type(effect) is Wait:
        return await wait_async(scope, effect.seconds)
    if type(effect) is Take:
        return await take_async(effect.slots, scope)
    return await aresolve(cast(Ask, effect).answer)


async def tried_value(awaitable: Awaitable[Any], deadline: Deadline | None, wrap: Callable[[Any], Any]) -> Any:
    """Return the awaited result, wrapped, or the raised exception as a value."""
    try:
        with deadline if deadline is not None else nullcontext():
            return wrap(await awaitable)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        return error


async def _tried(
    scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint, timeout: TimeLimit | None
) -> Tried:
    """Return the outcome of one call of the node."""
    try:
        if timeout is None:
            return await _once(scope, node, task, checkpoint)
        with Deadline(cast(Attempt, scope.attempt), timeout, node.name):
            return await _once(scope, node, task, checkpoint)
    except asyncio.CancelledError as error:
        if is_cancelled_by_run(scope):
            raise
        return NodeCancelledError(node.name, error)
    except GeneratorExit:  # the coroutine is dropped, maybe in a finaliser: nothing may be done here
        raise
    except BaseException as error:
        return error


async def _once(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Tried:
    if node.sync_lane == "inline":
        return tried(scope, node, task, checkpoint)
    if node.acall is None:
        if not node.routes_await:
            return await _once_in_thread(scope, node, task, checkpoint)
        state = begin(scope, node, task, checkpoint)
        answer = await call_function(scope, node.call, *given(node, state), **asked(node.asks, scope))
    else:
        state = begin(scope, node, task, checkpoint)
        answer = await node.acall(*given(node, state), **asked(node.asks, scope))
    if node.routes_await:
        return await conclude_async(scope, node, task, checkpoint, answer)
    return conclude(scope, node, task, checkpoint, answer)


async def _once_in_thread(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Tried:
    own = scope.copy_for_thread()  # an attempt that is given up goes on, while the scope is used for the next
    threads = scope.sibling_group.threads if scope.sibling_group is not None else None
    if threads is None:
        return await _tried_in_thread(scope, own, node, task, checkpoint)
    if not await take_async(threads, scope):
        return cancelled(scope)
    with Cleanup(threads.release):
        return await _tried_in_thread(scope, own, node, task, checkpoint)


async def _tried_in_thread(scope: Scope, own: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Tried:
    try:
        return await call_function(scope, _enter_and_try, own, node, task, checkpoint)
    finally:
        own.detach()
        scope.input = own.input


def _enter_and_try(scope: Scope, node: NodeProgram, task: Task, checkpoint: Checkpoint) -> Tried:
    enter_scope(scope)
    return tried(scope, node, task, checkpoint)


class Deadline:
    """Cancels an attempt at the end of its time limit, and reports that as NodeTimeoutError.

    Like `asyncio.timeout`, it runs in the task of the attempt: a coroutine that catches CancelledError and goes on
    goes on, but what it brings is ignored.
    """

    __slots__ = (
        "_attempt",
        "_began",
        "_cancelling",
        "_expired",
        "_has_ended",
        "_loop",
        "_node",
        "_task",
        "_timeout",
        "_timer",
    )

    def __init__(self, attempt: Attempt, timeout: TimeLimit, node: str) -> None:
        self._attempt = attempt
        self._timeout = timeout
        self._node = node
        self._expired: Exception | None = None
        self._has_ended = False

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._cancelling = self._task.cancelling()
        self._began = self._attempt.clock.monotonic()
        self._set_timer()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._has_ended = True  # a call that is on its way to the loop must strike nobody else
        self._timer.cancel()
        if self._expired is None:
            return
        is_cancelled_too = self._task.uncancel() > self._cancelling  # by somebody else
        if is_cancelled_too and isinstance(error, asyncio.CancelledError):
            return
        raise self._expired from error

    def _set_timer(self) -> None:
        clock = self._attempt.clock
        due, _, _ = next_timeout(self._attempt, self._timeout, self._began)
        self._timer = call_later(self._loop, clock, due - clock.monotonic(), self._check)
        if type(clock) is not SystemClock and due <= clock.monotonic():
            self._loop.call_soon(self._check)  # another thread has advanced a FakeClock before the timer was set

    def _check(self) -> None:
        """Cancel the attempt, unless there was a heartbeat meanwhile: then set the timer again."""
        if self._has_ended or self._expired is not None:
            return
        try:
            due, kind, limit = next_timeout(self._attempt, self._timeout, self._began)
            if self._attempt.clock.monotonic() < due:
                self._timer.cancel()
                self._set_timer()
                return
            self._expired = NodeTimeoutError(self._node, kind, limit)
        except Exception as error:  # of the clock: nobody would look again
            self._expired = error
        self._attempt.abandoned = True
        self._task.cancel()


def call_later(loop: asyncio.AbstractEventLoop, clock: Clock, seconds: float, callback: Callable[[], object]) -> Timer:
    """Call back on the loop when so much time has passed by the clock."""
    if type(clock) is SystemClock:
        return loop.call_later(seconds, callback)

    def ring() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback)

    return clock.call_later(seconds, ring)


async def pause(clock: Clock, seconds: float, ticket: Ticket) -> None:
    """Wait on the event loop until the time has passed by the clock, or the ticket is called."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = call_later(loop, clock, seconds, wake)
    ticket.on_call = lambda: loop.call_soon_threadsafe(wake)
    if ticket.called.is_set():
        wake()
    try:
        await woken
    finally:
        ticket.on_call = None
        timer.cancel()


async def wait_async(scope: Scope, seconds: float) -> bool:
    """Wait on the event loop. Return False if the task must not wait any longer."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = call_later(loop, scope.run.ports.clock, seconds, wake)
    try:
        with woken_by_the_end(scope, lambda: loop.call_soon_threadsafe(wake)):
            await woken
    finally:
        timer.cancel()
    return reason_to_wait_no_more(scope) is None


@asynccontextmanager
async def lent_async(scope: Scope) -> AsyncGenerator[None]:
    """Do the same as `suspended_slots` on the event loop."""
    scope.suspend_slots()
    try:
        yield
    except GeneratorExit:  # the coroutine is dropped, and must not wait for a slot
        scope.forgo()
        raise
    except BaseException:
        await _take_back(scope)
        raise
    else:
        await _take_back(scope)


async def _take_back(scope: Scope) -> None:
    for slots in scope.resumed_slots():
        if await take_async(slots, scope):  # else the run ends, and what the task still does has no effect
            scope.holding = (*scope.holding, slots)
        else:
            scope.go_without(slots)


async def take_async(slots: Slots, scope: Scope) -> bool:
    """Wait for a slot, on the event loop; False if the task must not wait any longer."""
    loop = asyncio.get_running_loop()
    offer = _Offer(slots, loop)
    if slots.acquire(offer.offered):
        return True
    try:
        with woken_by_the_end(scope, lambda: loop.call_soon_threadsafe(offer.end)):
            has_it = await offer.answer
    except asyncio.CancelledError:
        offer.leave()
        raise
    if has_it and reason_to_wait_no_more(scope) is not None:
        slots.release()
        return False
    return has_it


class _Offer:
    """A coroutine that waits for a slot, until it has one or leaves."""

    __slots__ = ("_loop", "_slots", "answer")

    def __init__(self, slots: Slots, loop: asyncio.AbstractEventLoop) -> None:
        self._slots = slots
        self._loop = loop
        self.answer: asyncio.Future[bool] = loop.create_future()
        """True if the slot was granted, False if the task does not need it any more."""

    def offered(self) -> bool:
        """Take the slot, unless the waiter has left. Called from any thread."""
        if self.answer.done():
            return False
        try:
            self._loop.call_soon_threadsafe(self._accept)
        except RuntimeError:  # the loop is closed: nobody waits there any more
            return False
        return True

    def _accept(self) -> None:
        if self.answer.done():  # the one who waited left while the slot was on its way
            self._slots.release()
        else:
            self.answer.set_result(True)

    def end(self) -> None:
        """Wait no more."""
        if not self.answer.done():
            self.answer.set_result(False)

    def leave(self) -> None:
        """Wait no more, and give back what has come."""
        if self.answer.done() and not self.answer.cancelled() and self.answer.result():
            workers.hand_over(self._slots.release)  # the coroutine may have been dropped, in a finaliser
        self.answer.cancel()
