"""Background tasks: webhook delivery, schedules, retention, deadlines; each sweeps when due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, Protocol

from statewright.clock import Clock

logger = logging.getLogger("statewright.service")
LONGEST_REST: Final = 5.0
"""Seconds between sweeps at most, even if nothing rang: another process may have created work."""
AFTER_FAILURE: Final = 5.0


class BackgroundTask(Protocol):
    """A recurring task. If it has a coroutine method `close`, that is called at the end."""

    async def sweep(self, now: datetime) -> datetime | None:
        """Do everything that is due. Return the latest time of the next call; None if only a change makes it due."""
        ...


class Background:
    """Sweeps its tasks concurrently until it is stopped."""

    def __init__(self, parts: Sequence[BackgroundTask], clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._bells: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start on the running event loop."""
        self._loop = asyncio.get_running_loop()
        for part in self._parts:
            bell = asyncio.Event()
            self._bells.append(bell)
            self._tasks.append(asyncio.create_task(self._keep_sweeping(part, bell)))

    def ring(self) -> None:
        """Wake all tasks to look for work now. Thread-safe."""
        loop = self._loop
        if loop is None:
            return
        with suppress(RuntimeError):  # it has stopped
            for bell in self._bells:
                loop.call_soon_threadsafe(bell.set)

    async def stop(self) -> None:
        """Cancel the sweeps in progress; their work is done again later."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for part in self._parts:
            close = getattr(part, "close", None)
            if close is not None:
                await close()
        self._tasks, self._bells, self._loop = [], [], None

    async def _keep_sweeping(self, part: BackgroundTask, bell: asyncio.Event) -> None:
        while True:
            bell.clear()
            seconds = LONGEST_REST
            try:
                now = self._clock.now()
                due = await part.sweep(now)
                if due is not None:
                    seconds = min(seconds, max((due - self._clock.now()).total_seconds(), 0.0))
            except Exception:
                logger.exception("%s has failed, and will be tried again.", type(part).__name__)
                seconds = AFTER_FAILURE
            timer = self._clock.call_later(seconds, self._ringing(bell))
            await bell.wait()
            timer.cancel()

    def _ringing(self, bell: asyncio.Event) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def ring() -> None:
            with suppress(RuntimeError):  # it has stopped
                loop.call_soon_threadsafe(bell.set)

        return ring
