"""Daemon threads for plain functions, shared by all runs of the process.

`concurrent.futures` does not fit: it joins its threads when the interpreter exits, so a node that is still running
would delay the exit; and a Future per task costs more than a short task.

Finalisers, signal handlers and callbacks of the garbage collector interrupt a thread anywhere, even while it holds a
lock. Their code must not take a lock, wait, or touch a disk. They hand such work over to a worker thread, with
`WorkerThreads.hand_over` or `Cleanup`.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Final, TypeVar

from statewright.futures import LightFuture

T = TypeVar("T")
Job = Callable[[], object]
MAX_HANDED_OVER: Final = 4
"""The maximum number of handed-over jobs that run at once."""
IDLE_SECONDS: Final = 10.0
"""Seconds that a thread waits for work before it ends."""
DEFAULT_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)
"""The default limit of concurrent plain functions in one superstep."""


class WorkerThreads:
    """Runs each job on an idle thread, or on a new one."""

    def __init__(self) -> None:
        self._forget_threads()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)

    def _forget_threads(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._idle: deque[None] = deque()
        """An entry for each idle thread. Not a semaphore: one that a signal handler interrupts may stay locked."""
        self._handed_over: SimpleQueue[Job] = SimpleQueue()
        self._forwards = False

    def submit(self, job: Job) -> None:
        """Run `job` soon. An exception is reported like any unhandled exception of a thread."""
        if self._reserve_idle():
            self._jobs.put(job)
        else:
            first = [job]  # a list that `_work` empties, because a thread keeps its arguments until it ends
            threading.Thread(target=self._work, args=(first,), name="statewright-worker", daemon=True).start()

    def hand_over(self, job: Job) -> None:
        """Run `job` soon, like `submit`, but without a lock, so that finalisers and signal handlers may call it."""
        self._handed_over.put(job)
        if not self._forwards:
            self._forwards = True
            try:  # not `threading.Thread`, which takes locks and waits when it starts
                _thread.start_new_thread(self._forward, (self._handed_over,))
            except RuntimeError:  # the interpreter is exiting, or there are too many threads: the next call tries again
                self._forwards = False

    def _forward(self, handed_over: SimpleQueue[Job]) -> None:
        """Submit handed-over jobs until the process ends, a few at a time.

        Hundreds of streams may be dropped together, each with one short write: these do not deserve a thread each.
        """
        slots = threading.Semaphore(MAX_HANDED_OVER)
        while True:
            job = handed_over.get()
            slots.acquire()
            try:
                self.submit(_with_release(job, slots))
            except RuntimeError:  # no thread can be started now
                slots.release()
                if not sys.is_finalizing():
                    job()
            del job

    def _work(self, first: list[Job]) -> None:
        job: Job | None = first.pop()
        while job is not None:
            job()
            del job  # a waiting thread must not keep the run of its last job alive
            self._idle.append(None)
            job = self._next_job()

    def _next_job(self) -> Job | None:
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            # End only if an idle entry is left. If there is none, a caller of `submit` counts on this thread.
            return None if self._reserve_idle() else self._jobs.get()

    def _reserve_idle(self) -> bool:
        """Reserve an idle thread to take the next job. Return False if there is none."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True


def _with_release(job: Job, slots: threading.Semaphore) -> Job:
    """Return a job that releases its slot when it ends."""

    def run() -> None:
        try:
            job()
        finally:
            slots.release()

    return run


workers: Final = WorkerThreads()


def submit_to_thread(function: Callable[[], T]) -> LightFuture[T]:
    """Call a function on a worker thread, without a context or an event loop, and return a future of its result."""
    future: LightFuture[T] = LightFuture()

    def call() -> None:
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    workers.submit(call)
    return future


class Cleanup:
    """Calls a function at the end of a block, on a worker thread if the block ends in a finaliser.

    A generator or coroutine that is suspended in the block, and then dropped, is closed by the code that drops the last
    reference, which may be the garbage collector in the middle of any other code. An explicit `close()` cannot be
    distinguished from that: a generator that delegates to ours with `yield from` calls it when it is dropped itself.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Job) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is GeneratorExit:
            workers.hand_over(self._call)
        else:
            self._call()


# -- plain functions on a worker thread, in a copy of the caller's context, awaited on an event loop


async def call_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function on a thread, and return its result. The function continues if the wait is cancelled."""
    return await begin_in_thread(function, *args, **kwargs)


def begin_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Call a function on a thread, and return a future of its result on the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result, error = context.run(function, *args, **kwargs), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(_set_outcome, future, result, error)
        except RuntimeError:  # the loop was closed while the function ran: nothing waits for it
            return

    workers.submit(call)
    return future


def _set_outcome(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # refused by futures, because it would look like the end of a coroutine
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(error)
