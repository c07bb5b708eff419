"""Event loops on threads of their own, for coroutine nodes of runs that are driven without one.

A coroutine node may block its loop by calling `invoke` again, directly or through threads that it waits for. So a
loop is lent to one superstep at a time: a nested run gets another one, however deep the nesting.
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
"""Loops that run only while somebody waits for them."""


def borrow_loop() -> asyncio.AbstractEventLoop:
    """A running loop that nobody else uses. The one given back last comes first, so programs mostly see one loop."""
    try:
        return _idle.pop()
    except IndexError:
        return _started()


def give_back(loop: asyncio.AbstractEventLoop, *, idle: bool) -> None:
    """Let others use the loop: at once if nothing runs on it, else when it next finds time."""
    if idle:
        _idle.append(loop)
    else:
        loop.call_soon_threadsafe(_idle.append, loop)


def run_privately(function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on a private loop, and wait for its answer."""
    loop = borrow_loop()
    try:
        return resolve(asyncio.run_coroutine_threadsafe(function(*args), loop))
    finally:
        give_back(loop, idle=True)


def run_here(function: Callable[..., Any], *args: Any, control: RunControl | None = None) -> Any:
    """Call a coroutine function on the present thread, on a loop that runs for it alone, and wait for its answer.

    A fifth of the cost of a handover to another thread, for coroutines of ours that leave nothing running behind them.
    Where a loop runs on the thread already, another thread's it is. Raises RunCancelled if `control` cancels it.
    """
    if is_on_loop():
        return run_privately(function, *args)
    # A loop keeps the context in which it was made, and with it whatever was running then.
    loop = _resting.pop() if _resting else contextvars.Context().run(_new_loop)
    task = loop.create_task(function(*args))
    try:
        if control is None:
            return loop.run_until_complete(task)
        with control.calling(lambda: loop.call_soon_threadsafe(task.cancel), _present_run()):
            return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if control is None or control.cancel_reason is None:
            raise
        raise RunCancelled(control.cancel_reason) from None
    finally:
        if not task.done():  # a KeyboardInterrupt, say, came in between
            task.cancel()
            loop.run_until_complete(asyncio.wait([task]))
        _resting.append(loop)


def _present_run() -> object:
    """The run to which the present code belongs."""
    scope = current_scope()
    return scope.run.root if scope is not None else None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop with a timer: without one, waiting for events would hold up the main thread's signal handlers."""
    loop = asyncio.new_event_loop()
    _poll_signals(loop)
    return loop


def _poll_signals(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_later(SIGNAL_POLL_SECONDS, _poll_signals, loop)


def _started() -> asyncio.AbstractEventLoop:
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
    """Tasks of one superstep that run on a private loop; called to end them."""

    __slots__ = ("_executor", "_loop", "_run")

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop, executor: LoopExecutor) -> None:
        self._run = run
        self._loop = loop
        self._executor = executor

    def wind_down(self) -> None:
        """Cancel the coroutines, since a task has failed; plain functions go on."""
        self._loop.call_soon_threadsafe(self._executor.wind_down)

    def __call__(self, waits: bool) -> None:
        """Cancel what still runs, wait until it has cleaned up if told so, and give the loop back.

        A finaliser must not wait.
        """
        loop, executor = self._loop, self._executor
        if executor.has_running or self._run.calls is not None:
            cancelling = asyncio.run_coroutine_threadsafe(self._end(), loop)
            cancelling.add_done_callback(lambda _: _at_work.discard(executor))
            if waits:
                resolve(cancelling)
        else:
            _at_work.discard(executor)
        give_back(loop, idle=not executor.has_running)

    async def _end(self) -> None:
        await self._executor.cancel()
        if self._run.calls is not None:
            await self._run.calls.end_async()


def start_coroutines(step: Superstep, places: Sequence[int], limit: int | None) -> Coroutines:
    """Start tasks on a private loop, in copies of the caller's context."""
    loop = borrow_loop()
    executor = LoopExecutor(loop)
    _at_work.add(executor)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(_start, executor, step, places, limit or DEFAULT_IN_FLIGHT, context=context)
    return Coroutines(step.run, loop, executor)


def _start(executor: LoopExecutor, step: Superstep, places: Sequence[int], limit: int) -> None:
    try:
        executor.start(step, places, limit)
    except Exception as error:  # the loop would only report it, and the superstep would wait for ever
        step.land(places[0], Failure(step.tasks[places[0]], error))


_at_work: set[LoopExecutor] = set()
"""The executors whose tasks are running. A loop holds its tasks weakly: in an abandoned stream they would be collected
as garbage, and their coroutines closed on a thread that is not that of the loop."""
