"""Daemon threads for plain functions, shared by all runs of the process.

`concurrent.futures` does not fit, for two reasons. It joins its threads when the interpreter exits, so a node that is
still running would delay the exit. And creating a Future for each task costs more than executing a short task.

Finalisers, signal handlers and callbacks of the garbage collector can interrupt a thread anywhere, even while it holds
a lock. So they must not take a lock, wait, or access a disk. They hand such work over to a worker thread, with
`WorkerThreads.hand_over` or `Cleanup`.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, TypeVar

from statewright.futures import LightFuture

T = TypeVar("T")
Job = Callable[[], object]
MAX_HANDED_OVER: Final = 4
"""The maximum number of jobs passed to `hand_over` that run at once."""
IDLE_SECONDS: Final = 10.0
"""Seconds that a thread waits for work before it ends."""
DEFAULT_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)
"""The default limit of concurrent plain functions in one superstep."""


class WorkerThreads:
    """Runs each job on an idle thread, or on a new one. The number of threads is not limited here."""

    def __init__(self) -> None:
        self._forget_threads()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)

    def _forget_threads(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._idle: deque[None] = deque()
        """One entry for each idle thread. A semaphore might stay locked if a signal handler interrupted it."""
        self._handed_over: SimpleQueue[Job] = SimpleQueue()
        self._is_forwarding = False
        """True once a thread has been started that submits the jobs of `_handed_over`."""

    def submit(self, job: Job) -> None:
        """Run `job` soon. Its exceptions are reported like any unhandled exception in a thread."""
        if self._reserve_idle():
            self._jobs.put(job)
        else:
            first_job = [job]  # a list that `_work` empties, because a thread keeps its arguments until it ends
            threading.Thread(target=self._work, args=(first_job,), name="statewright-worker", daemon=True).start()

    def hand_over(self, job: Job) -> None:
        """Run `job` soon, like `submit`, but take no lock, so that finalisers and signal handlers may call this."""
        self._handed_over.put(job)
        if not self._is_forwarding:
            self._is_forwarding = True
            try:  # not `threading.Thread`, which takes locks and waits when it starts
                _thread.start_new_thread(self._forward, (self._handed_over,))
            except RuntimeError:  # the interpreter is exiting, or there are too many threads: the next call tries again
                self._is_forwarding = False

    def _forward(self, handed_over: SimpleQueue[Job]) -> None:
        """Submit handed-over jobs until the process ends, at most MAX_HANDED_OVER at a time.

        Hundreds of streams may be dropped together, and each hands over one short write, which is not worth a thread.
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

    def _work(self, first_job: list[Job]) -> None:
        """Run jobs on this thread, until it has been idle for IDLE_SECONDS."""
        job: Job | None = first_job.pop()
        while job is not None:
            job()
            del job  # a thread that waits for work must not keep the run of its last job alive
            self._idle.append(None)
            job = self._next_job()

    def _next_job(self) -> Job | None:
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            # End only if an entry is left in `_idle`. If there is none, a caller of `submit` counts on this thread.
            return None if self._reserve_idle() else self._jobs.get()

    def _reserve_idle(self) -> bool:
        """Reserve an idle thread, which will take the next job. Return False if no thread is idle."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True


def _with_release(job: Job, slots: threading.Semaphore) -> Job:
    """Return a job that releases a slot when it ends."""

    def run() -> None:
        try:
            job()
        finally:
            slots.release()

    return run


workers: Final = WorkerThreads()


def submit_to_thread(function: Callable[[], T]) -> LightFuture[T]:
    """Call a function on a worker thread, in an empty context, and return a future of its result."""
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
    """Calls a function at the end of a block, on a worker thread if the block may be ending in a finaliser.

    A generator or coroutine that is suspended inside the block may be dropped. Then it is closed by whatever code drops
    the last reference to it, which may be the garbage collector in the middle of any other code. An explicit `close()`
    looks the same, because a generator that delegates to ours with `yield from` calls it when it is itself dropped.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Job) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, cls: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if cls is GeneratorExit:
            workers.hand_over(self._call)
        else:
            self._call()
