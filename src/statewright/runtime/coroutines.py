"""Coroutine nodes of a run that is driven without an event loop: they run on a private one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence

from statewright.runtime.loop_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.private_loop import private_loop
from statewright.runtime.superstep import Superstep


def start_coroutines(step: Superstep, places: Sequence[int], limit: int | None) -> Callable[[], object]:
    """Start tasks on a private loop, in copies of the caller's context; what cancels those that still run.

    Cancelling does not wait: it may be called from a finaliser.
    """
    loop = private_loop()
    executor = LoopExecutor(loop)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(executor.start, step, places, limit or DEFAULT_IN_FLIGHT, context=context)

    def cancel() -> None:
        if executor.has_running:
            asyncio.run_coroutine_threadsafe(executor.cancel(), loop)

    return cancel
