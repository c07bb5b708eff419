"""Worker threads for calls of plain `@task` functions, shared by all tasks of the process."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable

from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers


class PooledCall:
    """A call that is performed once: by a worker thread, or by a thread that waits for its result."""

    __slots__ = ("_claimed", "_context", "_perform")

    def __init__(self, perform: Callable[[], object]) -> None:
        self._perform = perform
        self._context = contextvars.copy_context()
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        """Return True for the first caller, which has to perform the call."""
        return self._claimed.acquire(blocking=False)

    @property
    def is_claimed(self) -> bool:
        return self._claimed.locked()

    def run(self) -> None:
        self._context.run(self._perform)


class CallPool:
    """A queue of calls, and up to DEFAULT_THREADS worker threads that perform them, each until the queue is empty."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all calls and threads, which do not exist in a forked process."""
        self._queue: deque[PooledCall] = deque()
        self._running: set[PooledCall] = set()
        self._threads = 0
        self._lock = threading.Lock()

    def submit(self, call: PooledCall) -> None:
        with self._lock:
            self._queue.append(call)
            if self._threads >= DEFAULT_THREADS:
                return
            self._threads += 1
        workers.submit(self._work)

    def replace_thread(self, call: PooledCall) -> None:
        """Start a thread in place of the one that performs a call: the call, whose run is over, may never end."""
        with self._lock:
            if call not in self._running:
                return
            self._running.discard(call)
            if not self._queue:
                self._threads -= 1
                return
        workers.submit(self._work)

    def _work(self) -> None:
        """Perform calls on this thread until the queue is empty."""
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                call = self._queue.popleft()
                self._running.add(call)
            if call.claim():
                call.run()
            with self._lock:
                if call not in self._running:  # `replace_thread` has put another thread in place of this one
                    return
                self._running.discard(call)
