"""Executors of plain functions: on the driver's thread, and on worker threads.

`asyncio_executor` runs coroutines, and `remote_executor` nodes in other processes. Each executor has one method:
`start(step, indices, limit)` starts the tasks of a superstep with these indices, at most `limit` at once, and passes
each outcome to the superstep. Until a task is started it is only an index: it has no thread and no asyncio task.
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
    """Runs tasks one after another, on the thread of the driver and in its context.

    Unlike those of the other executors, its `start` returns when the tasks have ended.
    """

    def start(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        scope = Scope(step.run)
        scope.is_inline = True
        token = enter_scope(scope)  # restores the caller's scope, although each task enters its own below
        try:
            for index in indices:
                if not step.begin(index):
                    return
                task = step.tasks[index]
                scope.task, scope.checkpoint = task, step.checkpoint
                enter_reused_scope((scope, task, step.checkpoint, None))
                node = step.nodes[task.node]
                # Even if all tasks of the run need attempts: these take slots and obey timeouts of Sends, which inline
                # tasks do not have.
                perform_task = execute_task if node.policies is None else perform_attempts
                step.accept(index, perform_task(scope, node, task, step.checkpoint))
        finally:
            leave_scope(token)


class ThreadExecutor:
    """Runs tasks on worker threads, each in a copy of the caller's context."""

    def start(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        workers.submit(_ThreadGroup(step, indices, limit))


class _ThreadGroup:
    """The tasks that some worker threads share: each thread takes and runs tasks until none is left.

    The first thread wakes a second, the second a third, and so on while tasks are left, so that a superstep of quick
    tasks is over before many threads have been woken. To the scopes of the tasks it is their `SiblingGroup`.
    """

    __slots__ = ("_context", "_indices", "_limit", "_perform_task", "_started", "_step", "_template_scope", "threads")

    def __init__(self, step: Superstep, indices: Sequence[int], limit: int) -> None:
        self._step = step
        self._indices = iter(indices)
        self._limit = min(limit, len(indices))
        self._started = 0
        """The number of threads that have taken part."""
        self._context = contextvars.copy_context()
        self._template_scope = Scope(step.run, None, step.checkpoint)
        self._perform_task = select_perform(step.run)
        self.threads = Slots(limit)

    def __call__(self) -> None:
        self._started += 1  # needs no lock: the next thread is woken after this one has counted itself
        wakes_another = self._started < self._limit
        while (index := self._step.begin_next(self._indices)) is not None:
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

    def _run_task(self, index: int) -> None:
        step = self._step
        task = step.tasks[index]
        outcome: Outcome
        try:
            scope = self._template_scope.enter_sibling(self, task, index)
            outcome = self._perform_task(scope, step.nodes[task.node], task, step.checkpoint)
        except BaseException as error:  # without an outcome the superstep would wait forever
            outcome = Failure(task, error)
        step.accept(index, outcome)
