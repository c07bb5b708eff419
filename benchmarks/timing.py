"""Timed passes: a `Take` from a function to run, in microseconds per unit of work.

The first pass builds the graph, which is not timed; so a missing engine fails in its own figures only.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import cache

from benchmarks.figure import Take

Clock = Callable[[], float]
MICROSECONDS = 1e6


def per_call(build: Callable[[], Callable[[], object]], units: int, *, clock: Clock = time.perf_counter) -> Take:
    """Return a pass of one call, which does this many units of work."""
    built = cache(build)

    def take() -> float:
        run = built()
        started_at = clock()
        run()
        return (clock() - started_at) * MICROSECONDS / units

    return take


def per_await(
    build: Callable[[], Callable[[], Awaitable[object]]], units: int, *, clock: Clock = time.perf_counter
) -> Take:
    """Return a pass of one awaited call, which does this many units; starting and closing the loop is not timed."""
    built = cache(build)

    async def timed() -> float:
        run = built()
        started_at = clock()
        await run()
        return (clock() - started_at) * MICROSECONDS / units

    return lambda: asyncio.run(timed())


def repeat_async(run: Callable[[], Awaitable[object]], times: int) -> Callable[[], Awaitable[None]]:
    """Return a function that awaits a run repeatedly, in one event loop."""

    async def repeat() -> None:
        for _ in range(times):
            await run()

    return repeat


def repeat_sync(run: Callable[[], object], times: int) -> Callable[[], None]:
    """Return a function that calls a run repeatedly."""

    def repeat() -> None:
        for _ in range(times):
            run()

    return repeat
