"""An event loop on a dedicated thread, isolated from the callers of the service."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

logger = logging.getLogger("statewright.service")
CANCEL_TIMEOUT: Final = 5.0
"""Seconds for tasks to end after they were cancelled."""
T = TypeVar("T")


class LoopThread:
    """A thread with an event loop, which runs coroutines from `start` until `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, and return once its event loop is running."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name=self._name, daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready: threading.Event) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._loop.call_soon(ready.set)
            self._loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the thread, and return the future of its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def responds(self, seconds: float) -> bool:
        """Return whether the event loop calls a function within `seconds`. A thread that is not running has none to
        call, and counts as responsive.
        """
        loop = self._loop
        if loop is None:
            return True
        reply: Future[None] = Future()
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(reply.set_result, None)
        # Not `wait_for`, which would cancel the reply, and a later call of `set_result` would fail.
        done, _ = await asyncio.wait([asyncio.wrap_future(reply)], timeout=seconds)
        return bool(done) or self._loop is not loop

    def stop(self, seconds: float | None = None) -> None:
        """Cancel all tasks, and wait until the thread ends, but at most `seconds` (`CANCEL_TIMEOUT` by default).

        A thread that is still alive after that is abandoned. It ends with the last of its tasks, or with the process.
        """
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CANCEL_TIMEOUT if seconds is None else seconds)
        if self._thread.is_alive():
            logger.warning(
                "Thread %s did not end, because its tasks ignore cancellation or block it. It is abandoned.", self._name
            )
        self._loop = self._thread = None
