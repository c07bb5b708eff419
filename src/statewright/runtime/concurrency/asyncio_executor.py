"""The executor for coroutines: one asyncio task for each running task of a superstep.

An asyncio task is created only when the limit on concurrency lets it run, and each one that ends starts the next. That
bounds the memory, and the work of the garbage collector. The next asyncio task is started by a callback of the loop,
not by the ending task itself. Otherwise, under `asyncio.eager_task_factory`, tasks that never wait would start each
other recursively.
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
from statewright.runtime.tasks.execute_async import execute_task_async
from statewright.runtime.tasks.retries_async import perform_attempts_async
from statewright.runtime.tasks.scope import Scope

DEFAULT_IN_FLIGHT: Final = 1000
"""The default limit of concurrent coroutines in one superstep."""


def _record_stop(step: Superstep, index: int, _: object) -> None:
    """Call `step.record_stop`, as a done callback of an asyncio task."""
    step.record_stop(index)


class LoopExecutor:
    """Runs tasks of one superstep on an event loop.

    Its methods must be called on the thread of that loop, unless their docstrings say otherwise.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[None], int] = {}
        """The index in the superstep of each running asyncio task."""
        self.is_stopping = False
        """True once this executor has cancelled its coroutines. False if something else has cancelled one of them."""
        self.threads = Slots(DEFAULT_THREADS)
        """The limit on the plain functions of this executor, which run on threads."""
        self._slots: Slots | None = None
        """The run's limit on concurrency, if it has exactly one (`Run.slots`): then this executor acquires the slots.
        If there are several limits, each task acquires a slot of each (`tasks/retries_async`)."""
        self._held_slot_count = 0
        """The number of slots of this limit that running tasks occupy."""
        self._context = contextvars.copy_context()

    @property
    def has_running(self) -> bool:
        return not all(task.done() for task in tuple(self._running))

    def start(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        """Start the tasks with these indices, at most `limit` of them at once, and report each outcome to `step`."""
        self._step = step
        self._unstarted = len(indices)
        self._indices: Iterator[int] = iter(indices)
        slots = step.run.slots
        self._slots = slots[0] if len(slots) == 1 else None
        self._all_need_attempts = len(slots) > 1 or (step.run.all_tasks_need_attempts and not slots)
        self._scope = Scope(step.run, None, step.checkpoint)
        self._scope.held_slots = slots if self._slots is not None else ()
        self._context = contextvars.copy_context()  # what one node changes in its context must not reach the next node
        for _ in range(min(limit, len(indices))):
            self._start_when_free()

    def wind_down(self) -> None:
        """Cancel the running coroutines because a task has failed. Plain functions on threads continue."""
        self.is_stopping = True
        for task, index in tuple(self._running.items()):
            step = self._step
            task.add_done_callback(partial(_record_stop, step, index))
            # A task whose node is a plain function runs on a thread, and cannot be stopped.
            if step.nodes[step.tasks[index].node].acall is not None:
                task.cancel()

    async def cancel(self) -> asyncio.CancelledError | None:
        """Cancel running tasks and wait for their clean-up.

        If this call is itself cancelled meanwhile, it returns the CancelledError at the end instead of raising it.
        """
        self.is_stopping = True
        running = [task for task in self._running if not task.done()]
        for task in running:
            task.cancel()
        cancellation = await wait_for_all(running) if running else None
        for _ in range(self._held_slot_count):  # slots of tasks that were cancelled before they could release them
            self._release_slot()
        return cancellation

    def abandon(self) -> None:
        """Release the slots of running tasks that will never be finished. Finalisers may call this."""
        for _ in range(self._held_slot_count):
            workers.hand_over(self._release_slot)

    def _start_when_free(self) -> None:
        """Start the next task, at once or when the run's limit on concurrency has a free slot."""
        if self._slots is None:
            self._start_next()
        elif self._slots.acquire(self._accept_slot):
            self._start_in_slot()

    def _accept_slot(self) -> bool:
        """Accept a slot that has become free, or return False if it is no longer needed. Called from any thread."""
        if self._step.closed or self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(self._start_in_slot, context=self._context)
        return True

    def _start_in_slot(self) -> None:
        self._held_slot_count += 1
        self._start_next()

    def _release_slot(self) -> None:
        if self._slots is not None:
            self._held_slot_count -= 1
            self._slots.release()

    def _start_next(self) -> None:
        step = self._step
        index = next(self._indices, None)
        if index is None or not step.begin(index):
            if self._held_slot_count:
                self._release_slot()
            return
        self._unstarted -= 1
        task = step.tasks[index]
        try:
            node = step.nodes[task.node]
            perform_task = (
                execute_task_async if node.policies is None and not self._all_need_attempts else perform_attempts_async
            )
            asyncio_task = self._loop.create_task(perform_task(self._scope, node, task, step.checkpoint, self, index))
        except Exception as error:  # raised by a task factory: without an outcome the superstep would wait forever
            step.accept(index, Failure(task, error))
            return
        self._running[asyncio_task] = index

    def report_end(self, scope: Scope, outcome: Outcome) -> None:
        """Accept the outcome of a task that has ended, and start the next one."""
        # Called by the asyncio task itself, which costs less than a done callback or a wrapper.
        self._running.pop(cast("asyncio.Task[None]", asyncio.current_task()), None)
        self._step.accept(scope.index, outcome)
        if self._held_slot_count:
            self._release_slot()
        if self._unstarted:
            self._loop.call_soon(self._start_when_free, context=self._context)
