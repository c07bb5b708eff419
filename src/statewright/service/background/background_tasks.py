"""Background tasks: webhook delivery, schedules, retention, deadlines; each sweeps when due."""

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
"""Seconds between sweeps at most, because another process may have created work."""
RETRY_AFTER: Final = 5.0
"""Seconds before a sweep that has failed is repeated."""


class BackgroundTask(Protocol):
    """A recurring task. Its coroutine method `close`, if it has one, is called at the end."""

    async def sweep(self, now: datetime) -> datetime | None:
        """Do everything that is due. Return the time of the next call at the latest; None if nothing is planned."""
        ...


class Background:
    """Sweeps its tasks concurrently until it is stopped."""

    def __init__(self, tasks: Sequence[BackgroundTask], clock: Clock) -> None:
        self._tasks = tasks
        self._clock = clock
        self._bells: list[asyncio.Event] = []
        self._sweeps: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for task in self._tasks:
            bell = asyncio.Event()
            self._bells.append(bell)
            self._sweeps.append(asyncio.create_task(self._sweep_when_due(task, bell)))

    def ring(self) -> None:
        """Wake all tasks to look for work now. Thread-safe."""
        for bell in self._bells:
            self._set(bell)

    def _set(self, bell: asyncio.Event) -> None:
        """Set a bell from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has stopped
                loop.call_soon_threadsafe(bell.set)

    async def stop(self) -> None:
        """Cancel the sweeps in progress; their work is done again later."""
        for sweeps in self._sweeps:
            sweeps.cancel()
        await asyncio.gather(*self._sweeps, return_exceptions=True)
        for task in self._tasks:
            close = getattr(task, "close", None)
            if close is not None:
                await close()
        self._sweeps, self._bells, self._loop = [], [], None

    async def _sweep_when_due(self, task: BackgroundTask, bell: asyncio.Event) -> None:
        while True:
            bell.clear()
            seconds = MAX_INTERVAL
            try:
                now = self._clock.now()
                due = await task.sweep(now)
                if due is not None:
                    seconds = min(seconds, max((due - self._clock.now()).total_seconds(), 0.0))
            except Exception:
                logger.exception("%s has failed, and will be tried again.", type(task).__name__)
                seconds = RETRY_AFTER
            timer = self._clock.call_later(seconds, partial(self._set, bell))
            await bell.wait()
            timer.cancel()
