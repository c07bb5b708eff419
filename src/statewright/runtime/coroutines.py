"""Coroutine nodes of a run that is driven without an event loop: they run on a private one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence

from statewright.runtime.loop_executor import DEFAULT_IN_FLIGHT, LoopExecutor
from statewright.runtime.private_loop import borrow_loop, give_back
from statewright.runtime.superstep import Superstep


def start_coroutines(step: Superstep, places: Sequence[int], limit: int | None) -> Callable[[bool], object]:
    """Start tasks on a private loop, in copies of the caller's context; what ends the loan of the loop.

    Ending it cancels what still runs, and waits until it has cleaned up if told so: not in a finaliser.
    """
    loop = borrow_loop()
    executor = LoopExecutor(loop)
    _at_work.add(executor)
    context = contextvars.copy_context()
    loop.call_soon_threadsafe(executor.start, step, places, limit or DEFAULT_IN_FLIGHT, context=context)

    def end(waits: bool) -> None:
        if executor.has_running:
            cancelling = asyncio.run_coroutine_threadsafe(executor.cancel(), loop)
            cancelling.add_done_callback(lambda _: _at_work.discard(executor))
            if waits:
                cancelling.result()
        else:
            _at_work.discard(executor)
        give_back(loop, idle=not executor.has_running)

    return end


_at_work: set[LoopExecutor] = set()
"""Those whose tasks run. A loop holds its tasks weakly: with an abandoned stream they would be collected as garbage,
and their coroutines closed on a thread that is not that of the loop."""
