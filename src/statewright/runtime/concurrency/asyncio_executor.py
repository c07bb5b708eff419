"""The executor for what awaits: an asyncio task for each task in flight.

Only as many are started as may be in flight; each that ends starts the next one. That bounds memory, and the garbage
collector's work with it. The next is started through the loop, not by the task that ends: under
`asyncio.eager_task_factory` a task that never waits would otherwise start its successors recursively.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, cast

from statewright.async_futures import wait_for_all
from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.tasks.execute_async import perform_async
from statewright.runtime.tasks.retries_async import perform_guarded_async
from statewright.runtime.tasks.scope import Scope

DEFAULT_IN_FLIGHT: Final = 1000
"""The default limit of concurrent coroutines in one superstep."""


def _leave(step: Superstep, place: int, _ended: object) -> None:
    step.leave(place)


class LoopExecutor:
    """Runs tasks of one superstep on the event loop of the thread that calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[None], int] = {}
        """The tasks in flight, with their places."""
        self.is_stopping = False
        """True while this executor cancels its coroutines, as opposed to a cancellation from elsewhere."""
        self.threads = Slots(DEFAULT_THREADS)
        self._slots: Slots | None = None
        """The limit on the whole tree of calls, if there is one; several are the business of each task."""
        self._held = 0
        """The number of slots in the run's limits that running tasks occupy."""
        self._context = contextvars.copy_context()

    @property
    def has_running(self) -> bool:
        return not all(task.done() for task in tuple(self._running))

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        self._step = step
        self._waiting = len(places)
        self._places: Iterator[int] = iter(places)
        slots = step.run.slots
        self._slots = slots[0] if len(slots) == 1 else None
        self._guards_all = len(slots) > 1 or (step.run.guards_all and not slots)
        self._scope = Scope(step.run, None, step.checkpoint)
        self._scope.sibling_group = self
        self._scope.holding = slots if self._slots is not None else ()
        self._context = contextvars.copy_context()  # what one node does to its context, the next must not see
        for _ in range(min(limit, len(places))):
            self._start_when_free()

    def wind_down(self) -> None:
        """Cancel the running coroutines, since a task has failed; plain functions continue. Called on the loop."""
        self.is_stopping = True
        for task, place in tuple(self._running.items()):
            step = self._step
            task.add_done_callback(partial(_leave, step, place))
            if (
                step.nodes[step.tasks[place].node].acall is not None
            ):  # else it runs on a thread, where nothing can stop it
                task.cancel()

    async def cancel(self) -> asyncio.CancelledError | None:
        """Cancel running tasks and wait until they have cleaned up. Return a cancellation that arrived meanwhile."""
        self.is_stopping = True
        running = [task for task in self._running if not task.done()]
        for task in running:
            task.cancel()
        signal = await wait_for_all(running) if running else None
        for _ in range(self._held):  # of those that did not come to their end
            self._give_back()
        return signal

    def abandon(self) -> None:
        """Release the slots of tasks that still run, since their loop will not. May be called in a finaliser."""
        for _ in range(self._held):
            workers.hand_over(self._give_back)

    def _start_when_free(self) -> None:
        """Start a task as soon as the limits on the whole tree of calls have a place for it."""
        if self._slots is None:
            self._start_next()
        elif self._slots.acquire(self._offered):
            self._start_in_place()

    def _offered(self) -> bool:
        """Take a slot that has become free. Called from any thread."""
        if self._step.closed or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(self._start_in_place, context=self._context)
        return True

    def _start_in_place(self) -> None:
        self._held += 1
        self._start_next()

    def _give_back(self) -> None:
        if self._slots is not None:
            self._held -= 1
            self._slots.release()

    def _start_next(self) -> None:
        step = self._step
        place = next(self._places, None)
        if place is None or not step.begin(place):
            if self._held:
                self._give_back()
            return
        self._waiting -= 1
        task = step.tasks[place]
        try:
            node = step.nodes[task.node]
            performs = perform_async if node.guards is None and not self._guards_all else perform_guarded_async
            running = self._loop.create_task(performs(self._scope, node, task, step.checkpoint, place))
        except Exception as error:  # of a task factory: without an outcome the superstep would wait for ever
            step.land(place, Failure(task, error))
            return
        self._running[running] = place

    def ended(self, scope: Scope, outcome: Outcome) -> None:
        """Report the end of a task. Called by the task itself: cheaper than a callback, or a coroutine around it."""
        self._running.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
        self._step.land(scope.index, outcome)
        if self._held:
            self._give_back()
        if self._waiting:
            self._loop.call_soon(self._start_when_free, context=self._context)
