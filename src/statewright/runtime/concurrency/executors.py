"""The port of what runs the tasks of a superstep, and the two executors that need no event loop.

`loop_executor` has the one for coroutines. An executor starts tasks and returns; outcomes go to the superstep.
"""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from statewright.runtime.concurrency.superstep import Superstep
from statewright.runtime.concurrency.worker_threads import workers
from statewright.runtime.invocation.limits import Slots
from statewright.runtime.invocation.outcome import Failure, Outcome
from statewright.runtime.tasks.execute import perform
from statewright.runtime.tasks.retries_sync import perform_guarded, performer
from statewright.runtime.tasks.scope import Scope, enter_scope, leave_scope


class Executor(Protocol):
    """Runs tasks of a superstep."""

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        """Run the tasks at `places`, at most `limit` at once, and pass each outcome to `step`.

        The rest wait as data, not as started tasks.
        """
        ...


class InlineExecutor:
    """Runs tasks one after another, on the thread of the driver and in its context."""

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        scope = Scope(step.run)
        scope.is_inline = True
        token = enter_scope(scope)
        try:
            for place in places:
                if not step.begin(place):
                    return
                task = step.tasks[place]
                scope.task, scope.checkpoint = task, step.checkpoint
                enter_scope((scope, task, step.checkpoint, None))
                node = step.nodes[task.node]
                performs = perform if node.guards is None else perform_guarded
                step.land(place, performs(scope, node, task, step.checkpoint))
        finally:
            leave_scope(token)


class ThreadExecutor:
    """Runs tasks on daemon threads, which pull them; each in a copy of the caller's context."""

    def start(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        workers.submit(_Pull(step, places, limit))


class _Pull:
    """Take and run tasks until none is left: the body of a worker thread.

    The first worker wakes a second, the second a third, and so on while there is work: a superstep of quick tasks
    is over before many threads have woken.
    """

    __slots__ = ("_context", "_limit", "_performs", "_places", "_pulling", "_scope", "_step", "threads")

    def __init__(self, step: Superstep, places: Sequence[int], limit: int) -> None:
        self._step = step
        self._places = iter(places)
        self._limit = min(limit, len(places))
        self._pulling = 0
        self._context = contextvars.copy_context()
        self._scope = Scope(step.run, None, step.checkpoint)
        self._scope.sibling_group = self
        self._performs = performer(step.run)
        self.threads = Slots(limit)

    def __call__(self) -> None:
        self._pulling += 1
        wakes_another = self._pulling < self._limit
        while (place := self._next()) is not None:
            if wakes_another:
                wakes_another = False
                self._wake_another()
            self._context.copy().run(self._perform, place)

    def _wake_another(self) -> None:
        with suppress(RuntimeError):  # no thread can be started now: those that pull do all the work
            workers.submit(self)

    @property
    def is_stopping(self) -> bool:
        return False  # there are no coroutines here

    def ended(self, scope: Scope, outcome: Outcome) -> None:
        self._step.land(scope.index, outcome)

    def _next(self) -> int | None:
        step = self._step
        with step.lock:
            place = None if step.ending or step.closed else next(self._places, None)
            if place is not None:
                step.under_way.add(place)
        return place

    def _perform(self, place: int) -> None:
        step = self._step
        task = step.tasks[place]
        outcome: Outcome
        try:
            scope = self._scope.enter_sibling(task, place)
            outcome = self._performs(scope, step.nodes[task.node], task, step.checkpoint)
        except BaseException as error:  # without an outcome the superstep would wait for ever
            outcome = Failure(task, error)
        step.land(place, outcome)
