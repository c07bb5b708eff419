"""Private event loops, for coroutine nodes of runs that are driven without an event loop.

A coroutine node may block its loop by calling `invoke`, directly or through threads that it waits for. So each loop
serves one superstep at a time, and a nested run gets another loop, however deep the nesting.
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
"""Loops that run on dedicated threads, and are not in use."""
_stopped_loops: list[asyncio.AbstractEventLoop] = []
"""Loops without a thread, which run only during a call of `run_on_this_thread`."""


def borrow_loop() -> asyncio.AbstractEventLoop:
    """Return a running loop that is not in use: the one returned last, so that most programs need only one."""
    try:
        return _idle_loops.pop()
    except IndexError:
        return _start_loop()


def return_loop(loop: asyncio.AbstractEventLoop, *, idle: bool) -> None:
    """Make a loop available again: at once if nothing runs on it, otherwise after its pending callbacks."""
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

    This costs a fifth of a call on another thread, but the coroutine must not leave anything running on the loop. If a
    loop already runs on this thread, another thread is used. Raises RunCancelled if `control` cancels the call.
    """
    if is_on_loop():
        return run_on_private_loop(function, *args)
    # In an empty context: a loop keeps the context of its creation alive, and with it the scope of the running task.
    loop = _stopped_loops.pop() if _stopped_loops else contextvars.Context().run(_new_loop)
    task = loop.create_task(function(*args))
    try:
        if control is None:
            return loop.run_until_complete(task)
        with control.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel), _current_run()):
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


def _current_run() -> object:
    """Return the root of the run that executes this code, if any."""
    scope = current_scope()
    return scope.run.root if scope is not None else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that wakes regularly: a long wait for events would delay signal handlers on the main thread."""
    loop = asyncio.new_event_loop()
    _poll_signals(loop)
    return loop


def _poll_signals(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_later(SIGNAL_POLL_SECONDS, _poll_signals, loop)


def _start_loop() -> asyncio.AbstractEventLoop:
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


# -- coroutine nodes of a run that is driven without an event loop


class CoroutineTasks:
    """The tasks of one superstep that run on a private loop."""

    __slots__ = ("_executor", "_loop", "_run")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, executor: LoopExecutor) -> None:
        self._run = run
        self._loop = loop
        self._executor = executor

    def wind_down(self) -> None:
        """Cancel the coroutines, since a task has failed; plain functions continue."""
        self._loop.call_soon_threadsafe(self._executor.wind_down)

    def end(self, *, wait: bool) -> None:
        """Cancel running coroutines, and return the loop. Waits for their clean-up if `wait`; a finaliser must not."""
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
    """Start tasks on a private loop, in copies of the caller's context."""
    loop = borrow_loop()
    executor = LoopExecutor(loop)
    _active_executors.add(executor)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(_start, executor, step, indices, limit or DEFAULT_IN_FLIGHT, context=context)
    return CoroutineTasks(step.run, loop, executor)


def _start(executor: LoopExecutor, step: Superstep, indices: Sequence[int], limit: int) -> None:
    try:
        executor.start(step, indices, limit)
    except Exception as error:  # the loop would only log it, and the superstep would wait forever
        step.accept(indices[0], Failure(step.tasks[indices[0]], error))


_active_executors: set[LoopExecutor] = set()
"""The executors whose tasks are running. A loop refers to its tasks weakly: without this strong reference, those of an
abandoned stream would be collected as garbage, and their coroutines closed on a thread other than that of the loop."""
