"""The executors without an event loop; the executor for coroutines is in `asyncio_executor`.

Each executor has one method: `start(step, indices, limit)` runs the tasks of a superstep with these indices, at most
`limit` at once, and passes each outcome to the superstep. The other tasks wait as indices: no thread or asyncio task is
started for them yet.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from contextlib import suppress

from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.tasks.execute import execute_task
from statewright.runtime.tasks.retries_sync import perform_attempts, select_perform
from statewright.runtime.tasks.scope import Scope, enter_reused_scope, enter_scope, leave_scope


class InlineExecutor:
    """Runs tasks one after another, on the thread of the driver and in its context."""

    def start(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        scope = Scope(step.run)
        scope.is_inline = True
        token = enter_scope(scope)
        try:
            for index in indices:
                if not step.begin(index):
                    return
                task = step.tasks[index]
                scope.task, scope.checkpoint = task, step.checkpoint
                enter_reused_scope((scope, task, step.checkpoint, None))
                node = step.nodes[task.node]
                perform_task = execute_task if node.policies is None else perform_attempts
                step.accept(index, perform_task(scope, node, task, step.checkpoint))
        finally:
            leave_scope(token)


class ThreadExecutor:
    """Runs tasks on worker threads, each in a copy of the caller's context."""

    def start(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        workers.submit(_WorkerJob(step, indices, limit))


class _WorkerJob:
    """The job of a worker thread: take and run tasks until none is left.

    Several threads execute the same job. The first wakes a second, the second a third, and so on while tasks are left:
    a superstep of quick tasks has ended before many threads wake.
    """

    __slots__ = ("_context", "_indices", "_limit", "_perform_task", "_running", "_scope", "_step", "threads")

    def __init__(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        self._step = step
        self._indices = iter(indices)
        self._limit = min(limit, len(indices))
        self._running = 0
        self._context = contextvars.copy_context()
        self._scope = Scope(step.run, None, step.checkpoint)
        self._scope.sibling_group = self
        self._perform_task = select_perform(step.run)
        self.threads = Slots(limit)

    def __call__(self) -> None:
        self._running += 1
        wakes_another = self._running < self._limit
        while (index := self._take_index()) is not None:
            if wakes_another:
                wakes_another = False
                with suppress(RuntimeError):  # no thread can be started now: the running ones do all the work
                    workers.submit(self)
            self._context.copy().run(self._run_task, index)

    @property
    def is_stopping(self) -> bool:
        return False  # it has no coroutines to cancel

    def report_end(self, scope: Scope, outcome: Outcome) -> None:
        self._step.accept(scope.index, outcome)

    def _take_index(self) -> int | None:
        step = self._step
        with step.lock:
            index = None if step.ending or step.closed else next(self._indices, None)
            if index is not None:
                step.running_indices.add(index)
        return index

    def _run_task(self, index: int) -> None:
        step = self._step
        task = step.tasks[index]
        outcome: Outcome
        try:
            scope = self._scope.enter_sibling(task, index)
            outcome = self._perform_task(scope, step.nodes[task.node], task, step.checkpoint)
        except BaseException as error:  # without an outcome the superstep would wait forever
            outcome = Failure(task, error)
        step.accept(index, outcome)
