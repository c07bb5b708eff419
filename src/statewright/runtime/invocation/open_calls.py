"""The calls of `@task` functions that the tasks of a run have made, and that have not ended.

A call belongs to its task, not to one attempt at the task. When the superstep of the task is over, its calls that are
still running are stopped: coroutines are cancelled and awaited. A plain function cannot be stopped. If its task will be
executed again, the superstep waits for the function (for `sibling_grace` at most), so that the next execution finds the
result in the journal.
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
    """A call of a `@task` function that has not ended. Implemented by `tasks.task_calls.Call`."""

    @property
    def caller_id(self) -> TaskId:
        """The id of the task that made the call, which may be another `@task` call."""
        ...

    @property
    def planned_id(self) -> TaskId:
        """The id of the superstep's task in which the call was made, directly or by other calls."""
        ...

    @property
    def is_running_function(self) -> bool:
        """True if the function is a plain function, and is running."""
        ...

    @property
    def is_on_this_thread(self) -> bool:
        """True if the call is running on the event loop of this thread, which therefore must not block to wait."""
        ...

    @property
    def ended(self) -> Future[Any]:
        """Completed once the call has ended and has cleaned up."""
        ...

    def cancel_unstarted(self) -> object:
        """Cancel the call if its function is a plain function that has not begun."""
        ...

    def stop(self) -> bool:
        """Cancel the call if it is a coroutine. Return True if its end must be awaited."""
        ...


class OpenCalls:
    """The open calls of one run.

    Calls are added and removed on any thread, without a lock: each operation on the set is atomic by itself.
    """

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: set[OpenCall] = set()

    def add(self, call: OpenCall) -> None:
        self._calls.add(call)

    def discard(self, call: OpenCall) -> None:
        self._calls.discard(call)

    def find_by_caller(self, task: Task) -> Sequence[OpenCall]:
        """Return the calls that a task has made itself, without the calls inside them."""
        return [call for call in self._calls.copy() if call.caller_id == task.id]

    def must_be_awaited(self, tasks: Sequence[Task], outcomes: Sequence[Outcome | None]) -> bool:
        """Return True if plain functions are running for tasks that will be executed again.

        `outcomes` has the outcome of each of `tasks`; None for a task that was stopped.
        """
        running_calls = [call for call in self._calls.copy() if call.is_running_function]
        if not running_calls:
            return False
        ids_to_repeat = {task.id for task, outcome in zip(tasks, outcomes, strict=True) if not _is_final(outcome)}
        return any(call.planned_id in ids_to_repeat for call in running_calls)

    def cancel_unstarted(self, task: Task) -> None:
        """Cancel the plain functions that a task has called itself, if they have not begun."""
        for call in self.find_by_caller(task):
            call.cancel_unstarted()

    def stop(self) -> Sequence[OpenCall]:
        """Cancel the coroutines, and return the calls whose end must be awaited. May be called from any thread."""
        return [call for call in self._calls.copy() if call.stop()]

    def end(self) -> None:
        """Cancel the coroutines, and wait until they have cleaned up. Those on this thread's loop are not awaited."""
        for call in self.stop():
            if not call.is_on_this_thread:
                wait_until_done(call.ended)

    async def end_async(self) -> Any:
        """Do the same as `end` on the running event loop.

        If this call is cancelled meanwhile, it returns the CancelledError at the end instead of raising it.
        """
        cancellation: Any = None
        if stopped := self.stop():
            from statewright.async_futures import wait_uncancelled  # loads asyncio

            for call in stopped:
                cancellation = await wait_uncancelled(call.ended) or cancellation
        return cancellation


def _is_final(outcome: Outcome | None) -> bool:
    """Return True if a task with this outcome will not be executed again."""
    return type(outcome) is TaskResult or (type(outcome) is Failure and outcome.is_parent_command)
