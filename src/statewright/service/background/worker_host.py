"""The thread of a service: its worker and its background tasks on one event loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress

from statewright.service.background.background_tasks import Background
from statewright.service.background.loop_thread import LoopThread
from statewright.service.engine.worker import RunWorker


class WorkerHost:
    """Runs a worker and background tasks on a thread of its own, isolated from the event loops of callers."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._thread: LoopThread | None = None
        self._work: Future[None] | None = None
        self.worker: RunWorker | None = None
        """None unless the host is running."""

    def start(self, worker: RunWorker) -> None:
        """Start the thread, the worker and the background tasks."""
        self.worker = worker
        self._thread = LoopThread("statewright-service")
        self._thread.start()
        self._work = self._thread.submit(worker.work())
        self._thread.submit(self._start_background()).result()

    async def _start_background(self) -> None:
        self._background.start()

    def ring(self) -> None:
        """Wake the worker and the background tasks, because something is due. Thread-safe."""
        if self.worker is not None:
            self.worker.ring()
        self._background.ring()

    async def stop(self, seconds: float | None = None) -> None:
        """Stop gracefully: give running steps so many seconds to finish, cancel the others, and release their runs."""
        worker, thread, work = self.worker, self._thread, self._work
        if worker is None or thread is None or work is None:
            return
        self.worker = None
        await asyncio.wrap_future(thread.submit(self._background.stop()))
        await asyncio.wrap_future(thread.submit(worker.drain(seconds)))
        with suppress(Exception):  # a failure of the worker does not prevent the shutdown
            await asyncio.wrap_future(work)
        await asyncio.to_thread(thread.stop)
        self._thread = None
