"""The executor for what awaits: an asyncio task for each task in flight.

Only as many are started as may be in flight; each that ends starts the next one. That bounds memory, and the garbage
collector's work with it. The next is started through the loop, not directly: under
`asyncio.eager_task_factory` a task that never waits would otherwise start its successors recursively.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from typing import Final, cast

from statewright.runtime.attempt_async import perform_async
from statewright.runtime.effects import Failure, Outcome
from statewright.runtime.scope import Scope, enter_scope
from statewright.runtime.superstep import Superstep

DEFAULT_IN_FLIGHT: Final = 1000
"""How many coroutines of one superstep run at once unless the caller says otherwise."""


class LoopExecutor:
    """Runs tasks on the event loop of the thread that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[None]] = set()
        self._context = contextvars.copy_context()

    @property
    def has_running(self) -> bool:
        return bool(self._running)

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        self._context = contextvars.copy_context()  # what one node does to its context, the next must not see
        remaining = iter(places)
        for _ in range(min(limit, len(places))):
            self._start_next(step, remaining)

    async def cancel(self) -> None:
        """Cancel what still runs, and wait until it has cleaned up."""
        running = tuple(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _start_next(self, step: Superstep, remaining: Iterator[int]) -> None:
        place = None if step.closed else next(remaining, None)
        if place is not None:
            self._running.add(self._loop.create_task(self._perform(step, place, remaining)))

    async def _perform(self, step: Superstep, place: int, remaining: Iterator[int]) -> None:
        task = step.tasks[place]
        scope = Scope(step.run, task, step.checkpoint)
        enter_scope(scope)
        outcome: Outcome
        try:
            outcome = await perform_async(scope, step.nodes[task.node], task, step.checkpoint)
        except asyncio.CancelledError:
            return
        except BaseException as error:
            outcome = Failure(task, error)
        finally:
            self._running.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        step.land(place, outcome)
        self._loop.call_soon(self._start_next, step, remaining, context=self._context)
