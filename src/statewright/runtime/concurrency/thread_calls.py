"""Plain functions that run on a worker thread, in a copy of the caller's context, and are awaited on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from statewright.runtime.concurrency.worker_threads import workers


async def call_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function on a thread, and return its result. If this is cancelled, the function continues."""
    return await begin_in_thread(function, *args, **kwargs)


def begin_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Call a function on a thread, and return a future of its result, which belongs to the running loop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result, error = context.run(function, *args, **kwargs), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(_set_outcome, future, result, error)
        except RuntimeError:  # the loop was closed while the function was running, so nothing waits for its result
            return

    workers.submit(call)
    return future


def _set_outcome(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():  # cancelled meanwhile
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # futures refuse it, because it would look like the end of a coroutine
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(error)
