"""Coroutine nodes of a run that is driven without an event loop: they run on a private one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Sequence

from statewright.futures import resolve
from statewright.runtime.concurrency.private_loop import borrow_loop, give_back
from statewright.runtime.core.effects import Failure
from statewright.runtime.core.run import Run
from statewright.runtime.tasks.asyncio_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.tasks.superstep import Superstep


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
"""Those whose tasks run. A loop holds its tasks weakly: with an abandoned stream they would be collected as garbage,
and their coroutines closed on a thread that is not that of the loop."""
