"""Recurring background tasks: webhook delivery, schedules, retention and deadlines.

A task does its work in sweeps. Each sweep returns the time at which the next one is due. `Background.wake` starts the
next sweep of every task at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from statewright.clock import Clock

logger = logging.getLogger("statewright.service")
MAX_INTERVAL: Final = 5.0
"""Maximum number of seconds between sweeps, because another process may have created work."""
RETRY_AFTER: Final = 5.0
"""Seconds before a failed sweep is repeated."""


class BackgroundTask(Protocol):
    """A recurring task. It may have a coroutine method `close`, which is called when the service stops."""

    async def sweep(self, now: datetime) -> datetime | None:
        """Do the work that is due. Return the time at which more work is due; None if none is planned."""
        ...


class Background:
    """Runs background tasks concurrently until it is stopped."""

    def __init__(self, tasks: Sequence[BackgroundTask], clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._wakeups: list[asyncio.Event] = []
        """For each background task, the event that wakes it."""
        self._sweepers: list[asyncio.Task[None]] = []
        """For each background task, the asyncio task that calls `sweep`."""
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for task in self._tasks:
            wakeup = asyncio.Event()
            self._wakeups.append(wakeup)
            self._sweepers.append(asyncio.create_task(self._sweep_when_due(task, wakeup)))

    def wake(self) -> None:
        """Wake all tasks, so that they look for work at once. Thread-safe."""
        for wakeup in self._wakeups:
            self._set(wakeup)

    def _set(self, wakeup: asyncio.Event) -> None:
        """Set an event of the event loop from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has stopped
                loop.call_soon_threadsafe(wakeup.set)

    async def stop(self) -> None:
        """Cancel all sweeps, and close the tasks. Interrupted work is done again after the next start."""
        for sweeper in self._sweepers:
            sweeper.cancel()
        await asyncio.gather(*self._sweepers, return_exceptions=True)
        for task in self._tasks:
            close = getattr(task, "close", None)
            if close is not None:
                await close()
        self._sweepers, self._wakeups, self._loop = [], [], None

    async def _sweep_when_due(self, task: BackgroundTask, wakeup: asyncio.Event) -> None:
        while True:
            wakeup.clear()
            seconds = MAX_INTERVAL
            try:
                now = self._clock.now()
                due = await task.sweep(now)
                if due is not None:
                    seconds = min(seconds, max((due - self._clock.now()).total_seconds(), 0.0))
            except Exception:
                logger.exception("Background task %s has failed. It will be retried.", type(task).__name__)
                seconds = RETRY_AFTER
            timer = self._clock.call_later(seconds, partial(self._set, wakeup))
            await wakeup.wait()
            timer.cancel()
