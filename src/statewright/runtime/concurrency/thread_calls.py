"""Plain functions awaited: called on a daemon worker thread, in a copy of the caller's context."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from statewright.runtime.concurrency.worker_threads import workers


async def call_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """What the function returns or raises. If the wait is cancelled the function goes on, and nobody hears of it."""
    return await begin_in_thread(function, *args, **kwargs)


def begin_in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
    """Call the function; what it returns or raises comes by the future."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def call() -> None:
        try:
            result, error = context.run(function, *args, **kwargs), None
        except BaseException as raised:
            result, error = None, raised
        try:
            loop.call_soon_threadsafe(_answer, answered, result, error)
        except RuntimeError:  # the loop was closed while the function ran: nobody waits
            return

    workers.submit(call)
    return answered


def _answer(answered: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answered.done():  # cancelled meanwhile
        return
    if error is None:
        answered.set_result(result)
    elif isinstance(error, StopIteration):  # a future refuses it: it would look like the end of a generator
        answered.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        answered.set_exception(error)
