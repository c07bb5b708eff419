"""The calls of `@task` functions that the tasks of a run have made, and that have not ended.

A call belongs to its task, not to one attempt at it. When the superstep of the task is over, calls that still run are
stopped: coroutines are cancelled and awaited. A plain function cannot be stopped. If its task will be executed again,
the superstep waits for it (for `sibling_grace` at most), so that its result is in the journal by then.
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
        """The id of the task that made the call; it may be a call itself."""
        ...

    @property
    def planned_id(self) -> TaskId:
        """The id of the task of the superstep to which the call belongs."""
        ...

    @property
    def is_running_function(self) -> bool:
        """True if it is a running call of a plain function."""
        ...

    @property
    def is_on_this_thread(self) -> bool:
        """True if it runs on the event loop of this thread, which must not wait for it."""
        ...

    @property
    def ended(self) -> Future[Any]:
        """Completed once the call has ended and cleaned up."""
        ...

    def cancel_unstarted(self) -> object:
        """Cancel the call if it is a plain function that has not begun."""
        ...

    def stop(self) -> bool:
        """Cancel the call if it is a coroutine. Return True if there is something to wait for."""
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
        """Return the calls that a task has made itself, without those that its calls have made."""
        return [call for call in self._calls.copy() if call.caller_id == task.id]

    def must_be_awaited(self, tasks: Sequence[Task], outcomes: Sequence[Outcome | None]) -> bool:
        """Return True if plain functions are running for tasks that will be executed again."""
        running = [call for call in self._calls.copy() if call.is_running_function]
        if not running:
            return False
        repeated = {task.id for task, outcome in zip(tasks, outcomes, strict=True) if not _is_over(outcome)}
        return any(call.planned_id in repeated for call in running)

    def cancel_unstarted(self, task: Task) -> None:
        """Cancel the plain functions that a task has called itself, and that have not begun."""
        for call in self.find_by_caller(task):
            call.cancel_unstarted()

    def stop(self) -> Sequence[OpenCall]:
        """Cancel the coroutines, and return their calls. May be called from any thread."""
        return [call for call in self._calls.copy() if call.stop()]

    def end(self) -> None:
        """Cancel the coroutines and wait until they have cleaned up, except those on the loop of this thread."""
        for call in self.stop():
            if not call.is_on_this_thread:
                wait_until_done(call.ended)

    async def end_async(self) -> Any:
        """`end`, on the running event loop. Return a cancellation that arrived meanwhile, or None."""
        signal: Any = None
        if stopped := self.stop():
            from statewright.async_futures import wait_uncancelled  # loads asyncio

            for call in stopped:
                signal = await wait_uncancelled(call.ended) or signal
        return signal


def _is_over(outcome: Outcome | None) -> bool:
    """Return True if a task with this outcome is not executed again."""
    return type(outcome) is TaskResult or (type(outcome) is Failure and outcome.is_parent_command)
