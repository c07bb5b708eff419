"""Daemon threads for plain functions, shared by all runs of the process.

`concurrent.futures` does not fit, for two reasons. It joins its threads when the interpreter exits, so a node that is
still running would delay the exit. And creating a Future for each task costs more than executing a short task.

Finalisers, signal handlers and callbacks of the garbage collector can interrupt a thread anywhere, even while it holds
a lock. So they must not take a lock, wait, or access a disk. They hand such work over to a worker thread, with
`WorkerThreads.hand_over` or `Cleanup`.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, TypeVar

from statewright.futures import LightFuture, SafeEvent

T = TypeVar("T")
Job = Callable[[], object]
MAX_HANDED_OVER: Final = 4
"""The maximum number of jobs passed to `hand_over` that run at once in one lane."""
EXIT_PATIENCE: Final = 1.0
"""The longest time in seconds that the exit of the interpreter waits for jobs that were handed over."""
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
        self._handed_over: SimpleQueue[tuple[Hashable, Job] | _Watch] = SimpleQueue()
        self._is_forwarding = False
        """True once a thread has been started that submits the jobs of `_handed_over`."""
        self._lanes: dict[Hashable, _Lane] = {}
        """The lanes with jobs that are running or waiting."""
        self._watches: list[_Watch] = []
        self._lanes_lock = threading.Lock()
        """Guards the lanes and the watches. Only the forwarding thread and threads that run jobs acquire it."""

    def submit(self, job: Job) -> None:
        """Run `job` soon. Its exceptions are reported like any unhandled exception in a thread."""
        if self._reserve_idle():
            self._jobs.put(job)
        else:
            first_job = [job]  # a list that `_work` empties, because a thread keeps its arguments until it ends
            threading.Thread(target=self._work, args=(first_job,), name="statewright-worker", daemon=True).start()

    def hand_over(self, job: Job, lane: Hashable = None) -> None:
        """Run `job` soon, like `submit`, but take no lock, so that finalisers and signal handlers may call this.

        Hundreds of streams may be dropped together, and each hands over one short write, which is not worth a thread.
        So at most MAX_HANDED_OVER jobs run at once. Jobs of different lanes do not wait for each other: those of a
        database that hangs, for example, do not delay those of another one.
        """
        self._handed_over.put((lane, job))
        self._start_forwarding()

    def finish(self, belongs: Callable[[Hashable], bool], seconds: float) -> bool:
        """Wait for all jobs that were handed over in certain lanes; return False if that takes longer than `seconds`.

        `belongs` is called with the key of each lane, under a lock.
        """
        if not self._is_forwarding:  # nothing was handed over
            return True
        watch = _Watch(belongs)
        self._handed_over.put(watch)  # behind the jobs
        return watch.done.wait(seconds)

    def _start_forwarding(self) -> None:
        if not self._is_forwarding:
            self._is_forwarding = True
            try:  # not `threading.Thread`, which takes locks and waits when it starts
                _thread.start_new_thread(self._forward, (self._handed_over,))
            except RuntimeError:  # the interpreter is exiting, or there are too many threads: the next call tries again
                self._is_forwarding = False

    def _forward(self, handed_over: SimpleQueue[tuple[Hashable, Job] | _Watch]) -> None:
        """Submit handed-over jobs until the process ends."""
        while True:
            item = handed_over.get()
            if isinstance(item, _Watch):
                with self._lanes_lock:
                    self._watches.append(item)
                    self._end_watches()
            else:
                self._enter_lane(*item)
            del item

    def _enter_lane(self, key: Hashable, job: Job) -> None:
        with self._lanes_lock:
            lane = self._lanes.setdefault(key, _Lane())
            if lane.running == MAX_HANDED_OVER:
                lane.waiting.append(job)
                return
            lane.running += 1
        run = partial(self._run_lane, key, [job])
        try:
            self.submit(run)
        except RuntimeError:  # no thread can be started now
            if not sys.is_finalizing():
                run()

    def _run_lane(self, key: Hashable, jobs: list[Job]) -> None:
        """Run a job, and then the waiting jobs of its lane. `jobs` is emptied, so that no ended job is kept alive."""
        while jobs:
            try:
                jobs.pop()()
            except BaseException:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
            with self._lanes_lock:
                lane = self._lanes[key]
                if lane.waiting:
                    jobs.append(lane.waiting.popleft())
                    continue
                lane.running -= 1
                if not lane.running:
                    del self._lanes[key]
                    self._end_watches()

    def _end_watches(self) -> None:
        """Notify those that wait for lanes which have become empty. The caller holds the lock."""
        for watch in list(self._watches):
            if not any(watch.belongs(key) for key in self._lanes):
                self._watches.remove(watch)
                watch.done.set()

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


class _Lane:
    """Handed-over jobs of which only some may run at once."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[Job] = deque()


class _Watch:
    """A thread that waits until certain lanes are empty."""

    __slots__ = ("belongs", "done")

    def __init__(self, belongs: Callable[[Hashable], bool]) -> None:
        self.belongs = belongs
        self.done = SafeEvent()


workers: Final = WorkerThreads()
atexit.register(workers.finish, lambda lane: True, EXIT_PATIENCE)


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
