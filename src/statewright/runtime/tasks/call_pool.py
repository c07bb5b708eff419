"""A pool of worker threads for calls of plain `@task` functions, shared by all runs of the process."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable

from statewright.runtime.concurrency.worker_threads import DEFAULT_THREADS, workers


class PooledCall:
    """A call that is performed once, either by a worker thread or by a thread that waits for its result."""

    __slots__ = ("_claimed", "_context", "_perform")

    def __init__(self, perform: Callable[[], object]) -> None:
        self._perform = perform
        self._context = contextvars.copy_context()
        self._claimed = threading.Lock()

    def claim(self) -> bool:
        """Return True to the first thread that calls this, and so has to `run` the call; False to all others."""
        return self._claimed.acquire(blocking=False)

    @property
    def is_claimed(self) -> bool:
        return self._claimed.locked()

    def run(self) -> None:
        """Perform the call on this thread, in the context in which it was made."""
        self._context.run(self._perform)


class CallPool:
    """A queue of calls, and up to DEFAULT_THREADS worker threads, which perform calls until the queue is empty."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all calls and threads, because they do not exist in a forked process."""
        self._queue: deque[PooledCall] = deque()
        self._running: set[PooledCall] = set()
        """The calls that were taken from the queue, and have not ended."""
        self._thread_count = 0
        self._lock = threading.Lock()

    def submit(self, call: PooledCall) -> None:
        """Add a call to the queue, and start another thread unless the limit is reached."""
        with self._lock:
            self._queue.append(call)
            if self._thread_count >= DEFAULT_THREADS:
                return
            self._thread_count += 1
        workers.submit(self._work)

    def replace_thread(self, call: PooledCall) -> None:
        """No longer count the thread that performs `call`, and start another one if other calls are queued.

        The run of `call` is over, but its function may never return.
        """
        with self._lock:
            if call not in self._running:
                return
            self._running.discard(call)
            if not self._queue:
                self._thread_count -= 1
                return
        workers.submit(self._work)

    def _work(self) -> None:
        """Perform calls on this thread until the queue is empty."""
        while True:
            with self._lock:
                if not self._queue:
                    self._thread_count -= 1
                    return
                call = self._queue.popleft()
                self._running.add(call)
            if call.claim():
                call.run()
            with self._lock:
                if call not in self._running:  # `replace_thread` has replaced this thread
                    return
                self._running.discard(call)
