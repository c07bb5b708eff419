"""The calls of `@task` functions that the tasks of a run have made and that have not ended.

A call belongs to its task, not to one attempt at it. When its superstep is over, what is left of it is stopped: a
coroutine is cancelled and awaited. A plain function can't be stopped; one whose task has to be executed again is waited
for, like one that runs beside a task which failed, so that its result is in the journal by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from statewright.checkpoint import Task, TaskResult
from statewright.futures import wait_until_done
from statewright.ids import TaskId
from statewright.runtime.invocation.outcome import Failure, Outcome


class OpenCall(Protocol):
    """A call that has not ended."""

    @property
    def caller_id(self) -> TaskId:
        """The id of the task that made the call."""
        ...

    @property
    def planned_id(self) -> TaskId:
        """The id of the task of the superstep in which it was made."""
        ...

    @property
    def is_at_work(self) -> bool:
        """True if it is a plain function that is running."""
        ...

    @property
    def is_on_this_thread(self) -> bool:
        """True if it runs on the loop of this thread, which must not wait for it."""
        ...

    @property
    def ended(self) -> Future[Any]: ...

    def call_off(self) -> object: ...

    def stop(self) -> bool: ...


class Calls:
    """The calls of one run. Calls come and go on any thread: each operation on the set is atomic by itself."""

    __slots__ = ("_under_way",)

    def __init__(self) -> None:
        self._under_way: set[OpenCall] = set()

    def add(self, call: OpenCall) -> None:
        self._under_way.add(call)

    def discard(self, call: OpenCall) -> None:
        self._under_way.discard(call)

    def find_by_caller(self, task: Task) -> Sequence[OpenCall]:
        """Return the calls that a task has made itself, not those of its calls."""
        return [call for call in self._under_way.copy() if call.caller_id == task.id]

    def are_waited_for(self, tasks: Sequence[Task], outcomes: Sequence[Outcome | None]) -> bool:
        """True if plain functions are running for tasks that will be executed again."""
        at_work = [call for call in self._under_way.copy() if call.is_at_work]
        if not at_work:
            return False
        again = {task.id for task, outcome in zip(tasks, outcomes, strict=True) if not _is_over(outcome)}
        return any(call.planned_id in again for call in at_work)

    def call_off(self, task: Task) -> None:
        """Begin nothing more that a task has asked for itself, and nobody has begun to work on."""
        for call in self.find_by_caller(task):
            call.call_off()

    def stop(self) -> Sequence[OpenCall]:
        """Cancel the coroutines, from any thread, and return them."""
        return [call for call in self._under_way.copy() if call.stop()]

    def end(self) -> None:
        """Cancel the coroutines and wait until they have cleaned up, except those of the waiting loop itself."""
        for call in self.stop():
            if not call.is_on_this_thread:
                wait_until_done(call.ended)

    async def end_async(self) -> Any:
        """Do the same as `end` on the running event loop. Return a cancellation that arrived meanwhile."""
        signal: Any = None
        if stopped := self.stop():
            from statewright.async_futures import wait_in_any_case  # loads asyncio

            for call in stopped:
                signal = await wait_in_any_case(call.ended) or signal
        return signal


def _is_over(outcome: Outcome | None) -> bool:
    """True if a task with this outcome is not executed again."""
    return type(outcome) is TaskResult or (type(outcome) is Failure and outcome.leaves)
