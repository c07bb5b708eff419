"""Private event loops, which run the coroutine nodes of graphs that are called synchronously.

A coroutine node may block its loop, because it calls `invoke` itself or waits for a thread that does. Therefore each
loop serves one superstep at a time, and the run of a subgraph gets another loop, however deep the nesting.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from statewright.async_futures import is_on_loop
from statewright.errors import RunCancelled
from statewright.futures import SIGNAL_POLL_SECONDS, resolve
from statewright.runtime.concurrency.asyncio_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.invocation.outcome import Failure
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.scope import current_scope

_idle_loops: list[asyncio.AbstractEventLoop] = []
"""Loops that are running on threads of their own, and are not in use."""
_stopped_loops: list[asyncio.AbstractEventLoop] = []
"""Loops without a thread of their own. They run only during a call of `run_on_this_thread`."""


def borrow_loop() -> asyncio.AbstractEventLoop:
    """Take a running loop that is not in use, or start one.

    The loop that was given back most recently is taken, so that most programs need only one.
    """
    try:
        return _idle_loops.pop()
    except IndexError:
        return _start_loop()


def return_loop(loop: asyncio.AbstractEventLoop, *, idle: bool) -> None:
    """Give a loop back: at once if it is `idle`, otherwise after the callbacks that are pending on it."""
    if idle:
        _idle_loops.append(loop)
    else:
        loop.call_soon_threadsafe(_idle_loops.append, loop)


def run_on_private_loop(function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on a private loop on another thread, and wait for its result."""
    loop = borrow_loop()
    try:
        return resolve(asyncio.run_coroutine_threadsafe(function(*args), loop))
    finally:
        return_loop(loop, idle=True)


def run_on_this_thread(function: Callable[..., Any], *args: Any, control: RunControl | None = None) -> Any:
    """Call a coroutine function on a private loop on this thread, and wait for its result.

    This is several times faster than `run_on_private_loop`, but the coroutine must not leave anything running on the
    loop. If an event loop is already running on this thread, another thread is used. Raises RunCancelled if `control`
    cancels the call.
    """
    if is_on_loop():
        return run_on_private_loop(function, *args)
    # In an empty context, because a loop keeps the context of its creation alive, and with it the current scope.
    loop = _stopped_loops.pop() if _stopped_loops else contextvars.Context().run(_new_loop)
    task = loop.create_task(function(*args))
    try:
        if control is None:
            return loop.run_until_complete(task)
        with control.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel), _current_root_run()):
            return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if control is None or control.cancel_reason is None:
            raise
        raise RunCancelled(control.cancel_reason) from None
    finally:
        if not task.done():  # a KeyboardInterrupt, for example
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        _stopped_loops.append(loop)


def _current_root_run() -> object:
    """Return the outermost run that is executing this code; None outside a run."""
    scope = current_scope()
    return scope.run.root if scope is not None else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that wakes regularly, because a long wait would delay signal handlers on the main thread."""
    loop = asyncio.new_event_loop()
    _keep_waking(loop)
    return loop


def _keep_waking(loop: asyncio.AbstractEventLoop) -> None:
    """Schedule a callback that does nothing except schedule itself again."""
    loop.call_later(SIGNAL_POLL_SECONDS, _keep_waking, loop)


def _start_loop() -> asyncio.AbstractEventLoop:
    """Start a loop on a new thread, and return it once it exists."""
    started: Future[asyncio.AbstractEventLoop] = Future()
    threading.Thread(target=_run_forever, args=(started,), name="statewright-loop", daemon=True).start()
    return started.result()


def _run_forever(started: Future[asyncio.AbstractEventLoop]) -> None:
    loop = contextvars.Context().run(asyncio.new_event_loop)
    asyncio.set_event_loop(loop)
    started.set_result(loop)
    loop.run_forever()


def _close_stopped_loops() -> None:
    while _stopped_loops:
        _stopped_loops.pop().close()


atexit.register(_close_stopped_loops)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle_loops.clear)  # threads do not survive a fork


# -- coroutine nodes of a graph that is called synchronously


class CoroutineTasks:
    """The tasks of one superstep that run on a private loop. Its methods are called on the thread of the driver."""

    __slots__ = ("_executor", "_loop", "_run")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, executor: LoopExecutor) -> None:
        self._run = run
        self._loop = loop
        self._executor = executor

    def wind_down(self) -> None:
        """Cancel the coroutines because a task has failed. Plain functions that are running on threads continue."""
        self._loop.call_soon_threadsafe(self._executor.wind_down)

    def end(self, *, wait: bool) -> None:
        """Cancel running coroutines, and give the loop back.

        With `wait`, return only when the coroutines have cleaned up. Finalisers pass False, because they must not wait.
        """
        loop, executor = self._loop, self._executor
        if executor.has_running or self._run.open_calls is not None:
            cancellation = asyncio.run_coroutine_threadsafe(self._cancel(), loop)
            cancellation.add_done_callback(lambda _: _active_executors.discard(executor))
            if wait:
                resolve(cancellation)
        else:
            _active_executors.discard(executor)
        return_loop(loop, idle=not executor.has_running)

    async def _cancel(self) -> None:
        await self._executor.cancel()
        if self._run.open_calls is not None:
            await self._run.open_calls.end_async()


def start_coroutines(step: Superstep, indices: Sequence[int], limit: int | None) -> CoroutineTasks:
    """Start the tasks of a superstep with these indices on a private loop, in copies of the caller's context.

    At most `limit` tasks run at once; None stands for DEFAULT_IN_FLIGHT.
    """
    loop = borrow_loop()
    executor = LoopExecutor(loop)
    _active_executors.add(executor)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(_start, executor, step, indices, limit or DEFAULT_IN_FLIGHT, context=context)
    return CoroutineTasks(step.run, loop, executor)


def _start(executor: LoopExecutor, step: Superstep, indices: Sequence[int], limit: int) -> None:
    try:
        executor.start(step, indices, limit)
    except Exception as error:  # the loop would only log the error, and the superstep would wait forever
        step.accept(indices[0], Failure(step.tasks[indices[0]], error))


_active_executors: set[LoopExecutor] = set()
"""The executors whose tasks are running.

An event loop holds only weak references to its tasks. Without these strong references, the tasks of an abandoned stream
would be garbage-collected, and their coroutines would be closed on a thread other than the loop's.
"""
