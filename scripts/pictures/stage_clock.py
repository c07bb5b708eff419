"""The clock of the pictures: its time passes only when the director lets it, so every picture shows the same times."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from statewright.clock import Alarm
from statewright.testing import FakeClock

QUIET = 0.012
"""Real seconds without a new alarm after which everything is assumed to wait for the clock."""


class StageClock(FakeClock):
    """A fake clock that advances in small steps, and after each lets the service do what has become due."""

    _last_alarm_at = 0.0

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        self._last_alarm_at = time.monotonic()
        return super().call_later(seconds, callback)

    def play(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass while runs are at work."""
        end = self.now() + timedelta(seconds=seconds)
        while (rest := (end - self.now()).total_seconds()) > 0:
            self.advance(min(step, rest))
            self.settle()

    def settle(self) -> None:
        """Wait until nothing happens any more without time passing."""
        time.sleep(QUIET)
        while time.monotonic() - self._last_alarm_at < QUIET:
            time.sleep(QUIET / 4)

    def skip_to(self, instant: datetime) -> None:
        """Let time pass at once while nothing is at work."""
        self.advance(max(0.0, (instant - self.now()).total_seconds()))
        self.settle()


clock = StageClock(datetime(2026, 11, 11, tzinfo=UTC))


async def spend(seconds: float) -> None:
    """Work for some time of the clock."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    clock.call_later(seconds, lambda: loop.call_soon_threadsafe(done.set))
    await done.wait()


def spend_blocking(seconds: float) -> None:
    """Work for some time of the clock, in a function that is not a coroutine."""
    done = threading.Event()
    clock.call_later(seconds, done.set)
    done.wait()
