"""Daemon threads for plain functions, shared by all runs of the process.

Not `concurrent.futures`: its threads are joined when the interpreter exits, so a node that was left running would
hold up the exit; and a Future per task costs more than the task.

Finalisers, signal handlers and callbacks of the garbage collector interrupt a thread anywhere, also while it holds a
lock. There nothing may take a lock, wait, or touch a disk: it is handed over (`hand_over`, `Cleanup`) to a thread here.
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
MOST_HANDED_OVER: Final = 4
"""How many jobs of finalisers run at once."""
IDLE_SECONDS: Final = 10.0
"""How long a thread waits for work before it ends."""
DEFAULT_THREADS: Final = min(32, (os.cpu_count() or 1) + 4)
"""How many plain functions of one superstep run at once unless the caller says otherwise."""


class WorkerThreads:
    """Runs each job on an idle thread, or on a new one."""

    def __init__(self) -> None:
        self._forget_threads()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_threads)

    def _forget_threads(self) -> None:
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._idle: deque[None] = deque()
        """An entry for each thread that waits. A semaphore that a signal interrupts may stay locked for good."""
        self._handed_over: SimpleQueue[Job] = SimpleQueue()
        self._forwards = False

    def submit(self, job: Job) -> None:
        """Run `job` soon. What it raises is reported like any unhandled exception of a thread."""
        if self._take_idle():
            self._jobs.put(job)
        else:
            first = [job]  # a thread keeps its arguments until it ends: they must not keep the job
            threading.Thread(target=self._work, args=(first,), name="statewright-worker", daemon=True).start()

    def hand_over(self, job: Job) -> None:
        """Run `job` soon, like `submit`; may be called where no lock may be taken."""
        self._handed_over.put(job)
        if not self._forwards:
            self._forwards = True
            try:  # not a `threading.Thread`: starting one takes locks, and waits
                _thread.start_new_thread(self._forward, (self._handed_over,))
            except RuntimeError:  # the interpreter ends, or there are too many threads: the next call tries again
                self._forwards = False

    def _forward(self, handed_over: SimpleQueue[Job]) -> None:
        """Submit what was handed over, for as long as the process lives; only so many at once.

        Hundreds of streams may be dropped together, and each has no more to do than one short write.
        """
        places = threading.Semaphore(MOST_HANDED_OVER)
        while True:
            job = handed_over.get()
            places.acquire()
            try:
                self.submit(_in_place(job, places))
            except RuntimeError:  # no thread can be started now
                places.release()
                if not sys.is_finalizing():
                    job()
            del job

    def _work(self, first: list[Job]) -> None:
        job: Job | None = first.pop()
        while job is not None:
            job()
            del job  # a waiting thread must not keep the last run alive
            self._idle.append(None)
            job = self._next_job()

    def _next_job(self) -> Job | None:
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            # If somebody has just counted on this thread, its job is on the way.
            return None if self._take_idle() else self._jobs.get()

    def _take_idle(self) -> bool:
        """Count on a thread that waits; False if there is none."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True


def _in_place(job: Job, places: threading.Semaphore) -> Job:
    def run() -> None:
        try:
            job()
        finally:
            places.release()

    return run


workers: Final = WorkerThreads()


def call_beside(function: Callable[[], T]) -> LightFuture[T]:
    """Call a function on a thread of its own, where this one must not wait for it or must not be interrupted in it."""
    promise: LightFuture[T] = LightFuture()

    def call() -> None:
        try:
            result = function()
        except BaseException as error:
            promise.set_exception(error)
        else:
            promise.set_result(result)

    workers.submit(call)
    return promise


class Cleanup:
    """Calls a function at the end of a block: here, or on another thread if the block ends in a finaliser.

    A generator or coroutine that is suspended in the block, and then dropped, is closed by whoever dropped it last:
    often the garbage collector, in the middle of anything. `close()` cannot be told from that: a generator that
    delegates to ours with `yield from`, and is dropped itself, closes ours.
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


# -- awaiting plain functions: they run on a daemon thread, in a copy of the caller's context


async def call_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function on a thread. If the wait is cancelled, the function continues and its result is lost."""
    return await begin_in_thread(function, *args, **kwargs)


def begin_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Call the function; what it returns or raises comes by the future."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result, error = context.run(function, *args, **kwargs), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(_answer, answered, result, error)
        except RuntimeError:  # the loop was closed while the function ran: nobody waits
            return

    workers.submit(call)
    return answered


def _answer(answered: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answered.done():  # cancelled meanwhile
        return
    if error is None:
        answered.set_result(result)
    elif isinstance(error, StopIteration):  # a future refuses it: it would look like the end of a generator
        answered.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        answered.set_exception(error)
