"""The executor for what awaits: an asyncio task for each task in flight.

Only as many are started as may be in flight; each that ends starts the next one. That bounds memory, and the garbage
collector's work with it. The next is started through the loop, not by the task that ends: under
`asyncio.eager_task_factory` a task that never waits would otherwise start its successors recursively.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from typing import Final, cast

from statewright.runtime.attempt_async import perform_async
from statewright.runtime.attempts_async import perform_guarded_async
from statewright.runtime.effects import Outcome
from statewright.runtime.limits import Slots
from statewright.runtime.scope import Scope
from statewright.runtime.superstep import Superstep
from statewright.runtime.worker_threads import DEFAULT_THREADS

DEFAULT_IN_FLIGHT: Final = 1000
"""How many coroutines of one superstep run at once unless the caller says otherwise."""


class LoopExecutor:
    """Runs tasks of one superstep on the event loop of the thread that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()
        self.threads = Slots(DEFAULT_THREADS)
        self._context = contextvars.copy_context()

    @property
    def has_running(self) -> bool:
        return not all(task.done() for task in tuple(self._running))

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        self._step = step
        self._waiting = len(places)
        self._places: Iterator[int] = iter(places)
        self._scope = Scope(step.run, None, step.checkpoint)
        self._scope.apart = self
        self._crowded = bool(step.run.slots)
        self._context = contextvars.copy_context()  # what one node does to its context, the next must not see
        for _ in range(min(limit, len(places))):
            self._start_next()

    async def cancel(self) -> None:
        """Cancel what still runs, and wait until it has cleaned up."""
        running = [task for task in self._running if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _start_next(self) -> None:
        step = self._step
        if step.closed:
            return
        self._waiting -= 1
        place = next(self._places)
        task = step.tasks[place]
        node = step.nodes[task.node]
        performs = perform_async if node.guards is None and not self._crowded else perform_guarded_async
        self._running.add(self._loop.create_task(performs(self._scope, node, task, step.checkpoint, place)))

    def ended(self, scope: Scope, outcome: Outcome) -> None:
        """Called by a task with its last breath: that costs less than a callback, or a coroutine around it."""
        self._running.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        self._step.land(scope.place, outcome)
        if self._waiting:
            self._loop.call_soon(self._start_next, context=self._context)
