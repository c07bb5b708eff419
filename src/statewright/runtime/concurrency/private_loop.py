"""Event loops on threads of their own, for coroutine nodes of runs that are driven without one.

A coroutine node may block its loop by calling `invoke` again, directly or through threads that it waits for. So each
loop serves one superstep at a time, and a nested run gets another loop, however deep the nesting.
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

_idle: list[asyncio.AbstractEventLoop] = []
"""Loops that run on threads of their own."""
_resting: list[asyncio.AbstractEventLoop] = []
"""Loops without a thread, which run only while a caller of `run_here` waits."""


def borrow_loop() -> asyncio.AbstractEventLoop:
    """Return a running loop that is not in use: the one released last, so that most programs see only one loop."""
    try:
        return _idle.pop()
    except IndexError:
        return _start_loop()


def give_back(loop: asyncio.AbstractEventLoop, *, idle: bool) -> None:
    """Make a loop available again: at once if nothing runs on it, otherwise after its pending callbacks."""
    if idle:
        _idle.append(loop)
    else:
        loop.call_soon_threadsafe(_idle.append, loop)


def run_privately(function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on a private loop, and wait for its result."""
    loop = borrow_loop()
    try:
        return resolve(asyncio.run_coroutine_threadsafe(function(*args), loop))
    finally:
        give_back(loop, idle=True)


def run_here(function: Callable[..., Any], *args: Any, control: RunControl | None = None) -> Any:
    """Call a coroutine function on this thread, on a loop that runs for it alone, and wait for its result.

    This costs a fifth of a call on another thread, but the coroutine must not leave anything running on the loop. If a
    loop is already running on this thread, another thread is used. Raises RunCancelled if `control` cancels the call.
    """
    if is_on_loop():
        return run_privately(function, *args)
    # An empty context: a loop keeps the one in which it was created, and with it the scope of the running task.
    loop = _resting.pop() if _resting else contextvars.Context().run(_new_loop)
    task = loop.create_task(function(*args))
    try:
        if control is None:
            return loop.run_until_complete(task)
        with control.calling(lambda: loop.call_soon_threadsafe(task.cancel), _current_run()):
            return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if control is None or control.cancel_reason is None:
            raise
        raise RunCancelled(control.cancel_reason) from None
    finally:
        if not task.done():  # a KeyboardInterrupt, for example
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        _resting.append(loop)


def _current_run() -> object:
    """Return the root run in which this code is executed, if any."""
    scope = current_scope()
    return scope.run.root if scope is not None else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop with a timer: without one, a wait for events would delay signal handlers on the main thread."""
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


def _close_resting() -> None:
    while _resting:
        _resting.pop().close()


atexit.register(_close_resting)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork


# -- coroutine nodes of a run that is driven without an event loop


class Coroutines:
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
        """Cancel running coroutines, and release the loop. A finaliser must not `wait` until they have cleaned up."""
        loop, executor = self._loop, self._executor
        if executor.has_running or self._run.calls is not None:
            cancellation = asyncio.run_coroutine_threadsafe(self._cancel(), loop)
            cancellation.add_done_callback(lambda _: _active_executors.discard(executor))
            if wait:
                resolve(cancellation)
        else:
            _active_executors.discard(executor)
        give_back(loop, idle=not executor.has_running)

    async def _cancel(self) -> None:
        await self._executor.cancel()
        if self._run.calls is not None:
            await self._run.calls.end_async()


def start_coroutines(step: Superstep, indices: Sequence[int], limit: int | None) -> Coroutines:
    """Start tasks on a private loop, in copies of the caller's context."""
    loop = borrow_loop()
    executor = LoopExecutor(loop)
    _active_executors.add(executor)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(_start, executor, step, indices, limit or DEFAULT_IN_FLIGHT, context=context)
    return Coroutines(step.run, loop, executor)


def _start(executor: LoopExecutor, step: Superstep, indices: Sequence[int], limit: int) -> None:
    try:
        executor.start(step, indices, limit)
    except Exception as error:  # the loop would only report it, and the superstep would wait for ever
        step.accept(indices[0], Failure(step.tasks[indices[0]], error))


_active_executors: set[LoopExecutor] = set()
"""The executors whose tasks are running. A loop holds its tasks weakly: without this reference, those of an abandoned
stream would be collected as garbage, and their coroutines closed on a thread other than that of the loop."""
