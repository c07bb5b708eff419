"""Passes that take time: from something to run to a `Take` in microseconds a unit of work.

Building is not timed and happens on the first pass, so that an engine that is missing fails alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache

from benchmarks.figure import Take

Clock = Callable[[], float]
MICROSECONDS = 1e6


def per_call(build: Callable[[], Callable[[], object]], units: int, *, clock: Clock = time.perf_counter) -> Take:
    """Microseconds a unit when one call does that many units."""
    built = cache(build)

    def take() -> float:
        run = built()
        began = clock()
        run()
        return (clock() - began) * MICROSECONDS / units

    return take


def per_await(
    build: Callable[[], Callable[[], Awaitable[object]]], units: int, *, clock: Clock = time.perf_counter
) -> Take:
    """Microseconds a unit when one awaited call does that many units; opening and closing the loop is not counted."""
    built = cache(build)

    async def timed() -> float:
        run = built()
        began = clock()
        await run()
        return (clock() - began) * MICROSECONDS / units

    return lambda: asyncio.run(timed())


def awaited(run: Callable[[], Awaitable[object]], times: int) -> Callable[[], Awaitable[None]]:
    """Repeat a run inside one event loop."""

    async def repeat() -> None:
        for _ in range(times):
            await run()

    return repeat


def called(run: Callable[[], object], times: int) -> Callable[[], None]:
    """Repeat a run."""

    def repeat() -> None:
        for _ in range(times):
            run()

    return repeat
