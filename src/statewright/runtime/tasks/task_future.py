"""The future that a call of a `@task` function returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from statewright.errors import InvalidUpdateError, LeaseLost, RunCancelled
from statewright.futures import SafeEvent
from statewright.runtime.invocation.run import Run
from statewright.runtime.tasks.call_pool import PooledCall
from statewright.runtime.tasks.liveness import check_may_wait, note_refusal, wake_at_end
from statewright.runtime.tasks.retries_sync import suspended_slots
from statewright.runtime.tasks.scope import Scope

T = TypeVar("T")


class TaskFuture(Generic[T]):
    """The future result of a `@task` call. Await it in a coroutine function; elsewhere call `result()`."""

    __slots__ = ("_asyncio_task", "_caller", "_ended_in", "_future", "_pooled")

    def __init__(self, caller: Scope) -> None:
        self._caller = caller
        self._future: Future[T] = Future()
        self._future.set_running_or_notify_cancel()  # so that cancelling code that waits does not cancel the call
        self._pooled: PooledCall | None = None
        """For a plain function: the pooled call, which a waiting thread performs if no worker thread has started it."""
        self._asyncio_task: Any = None
        """For a coroutine function: the asyncio task of the call, if it is on the event loop of the caller."""
        self._ended_in: Run | None = None
        """The run in which the call has ended; None until then."""

    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it.

        Raises the exception of the task; TimeoutError if there is no result after `timeout` seconds; RunCancelled if
        the run of the caller is over; and InvalidUpdateError in a coroutine, which must not block its event loop.
        """
        self._wait_on_thread(timeout)
        return self._value()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the task, and return its exception; None if it has a result.

        Raises the same errors as `result`, except the exception of the task.
        """
        self._wait_on_thread(timeout)
        error = self._future.exception(0)
        if error is not None:
            note_refusal(self._caller, error, self._ended_in)
        return error

    def add_done_callback(self, callback: Callable[[TaskFuture[T]], object]) -> None:
        """Call `callback` with this future when the task has ended."""
        self._future.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    def _value(self) -> T:
        """Return the result of a call that has ended, or raise its error."""
        try:
            return self._future.result(0)
        except (RunCancelled, LeaseLost) as error:
            note_refusal(self._caller, error, self._ended_in)
            raise

    def _wait_on_thread(self, timeout: float | None) -> None:
        """Block this thread until the call has ended, or for `timeout` seconds.

        Raises RunCancelled if the run of the caller is over.
        """
        if self._future.done():
            return
        if self._asyncio_task is not None:
            raise InvalidUpdateError("The task has not ended yet, and this coroutine must not block. Await the task.")
        with suspended_slots(self._caller):
            # A call that has not started is performed by this thread, unless the wait must end after a timeout.
            if timeout is None and self._pooled is not None and self._pooled.claim():
                self._pooled.run()
            self._block(timeout)

    def _block(self, timeout: float | None) -> None:
        caller, woken = self._caller, SafeEvent()  # a signal handler may cancel the run
        deadline = None if timeout is None else time.monotonic() + timeout
        self._future.add_done_callback(lambda _: woken.set())
        with wake_at_end(caller, woken.set):
            while not self._future.done():
                check_may_wait(caller)
                if not woken.wait(None if deadline is None else deadline - time.monotonic()):
                    return
                woken.clear()

    async def _wait(self) -> T:
        import asyncio
        from contextlib import nullcontext

        from statewright.runtime.tasks.retries_async import suspended_slots_async

        if self._future.done():
            return self._value()
        caller = self._caller
        try:
            async with suspended_slots_async(caller) if caller.uses_slots else nullcontext():
                await (self._asyncio_task if self._asyncio_task is not None else asyncio.wrap_future(self._future))
        except (RunCancelled, LeaseLost) as error:
            note_refusal(caller, error, self._ended_in)
            raise
        return self._value()

    # -- used by `task_calls`

    @property
    def future(self) -> Future[T]:
        """The future of the standard library that this one wraps."""
        return self._future

    def set_performer(self, pooled: PooledCall | None, asyncio_task: Any) -> None:
        """Set what performs the call: `pooled` for a plain function, `asyncio_task` for a coroutine function."""
        self._pooled, self._asyncio_task = pooled, asyncio_task

    def settle(self, value: Any, error: BaseException | None, run: Run | None = None) -> None:
        """Set the result or the error of the call, and the run in which the call has ended."""
        self._ended_in = run
        if error is None:
            self._future.set_result(value)
        else:
            self._future.set_exception(error)
