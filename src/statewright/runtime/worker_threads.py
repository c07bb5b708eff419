"""Daemon threads for plain functions, shared by all runs of the process.

Not `concurrent.futures`: its threads are joined when the interpreter exits, so a node that was left running would
hold up the exit; and a Future per task costs more than the task.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

Job = Callable[[], object]
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
        self._idle = threading.Semaphore(0)

    def submit(self, job: Job) -> None:
        """Run `job` soon. What it raises is reported like any unhandled exception of a thread."""
        if self._idle.acquire(blocking=False):
            self._jobs.put(job)
        else:
            first = [job]  # a thread keeps its arguments until it ends: they must not keep the job
            threading.Thread(target=self._work, args=(first,), name="statewright-worker", daemon=True).start()

    def _work(self, first: list[Job]) -> None:
        job: Job | None = first.pop()
        while job is not None:
            job()
            del job  # a waiting thread must not keep the last run alive
            self._idle.release()
            job = self._next_job()

    def _next_job(self) -> Job | None:
        try:
            return self._jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            # If somebody has just counted on this thread, its job is on the way.
            return None if self._idle.acquire(blocking=False) else self._jobs.get()


workers: Final = WorkerThreads()
