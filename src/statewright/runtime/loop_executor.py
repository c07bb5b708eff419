"""The executor for what awaits: an asyncio task for each task in flight.

Only as many are started as may be in flight; each that ends starts the next one. That bounds memory, and the garbage
collector's work with it. The next is started by the loop's callback, not by the task that ends: under
`asyncio.eager_task_factory` a task that never waits would otherwise start its successors recursively.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from typing import Final

from statewright.runtime.attempt_async import perform_async
from statewright.runtime.effects import Failure, Outcome
from statewright.runtime.scope import Scope, enter_scope
from statewright.runtime.superstep import Superstep

DEFAULT_IN_FLIGHT: Final = 1000
"""How many coroutines of one superstep run at once unless the caller says otherwise."""


class LoopExecutor:
    """Runs tasks of one superstep on the event loop of the thread that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._place_by_running: dict[asyncio.Task[Outcome], int] = {}

    @property
    def has_running(self) -> bool:
        return bool(self._place_by_running)

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        self._step = step
        self._remaining: Iterator[int] = iter(places)
        self._context = contextvars.copy_context()
        self._context.run(self._start_first, min(limit, len(places)))

    async def cancel(self) -> None:
        """Cancel what still runs, and wait until it has cleaned up."""
        running = tuple(self._place_by_running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _start_first(self, count: int) -> None:
        for _ in range(count):
            self._start_next()

    def _start_next(self) -> None:
        """Start a task. Called in the executor's own context, of which each task gets a copy."""
        step = self._step
        place = None if step.closed else next(self._remaining, None)
        if place is None:
            return
        task = step.tasks[place]
        scope = Scope(step.run, task, step.checkpoint, apart=True)
        enter_scope(scope)
        running = self._loop.create_task(perform_async(scope, step.nodes[task.node], task, step.checkpoint))
        self._place_by_running[running] = place
        # A callback of the task, rather than a coroutine around it, saves a frame for each task in flight.
        running.add_done_callback(self._ended, context=self._context)

    def _ended(self, running: asyncio.Task[Outcome]) -> None:
        place = self._place_by_running.pop(running)
        if not running.cancelled():
            error = running.exception()
            step = self._step
            step.land(place, running.result() if error is None else Failure(step.tasks[place], error))
        self._start_next()
