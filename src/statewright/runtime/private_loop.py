"""Event loops on threads of their own, for coroutine nodes of runs that are driven without one.

A coroutine node may block its loop by calling `invoke` again, directly or through threads that it waits for. So a
loop is lent to one superstep at a time: a nested run gets another one, however deep the nesting.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_idle: list[asyncio.AbstractEventLoop] = []


def borrow_loop() -> asyncio.AbstractEventLoop:
    """A running loop that nobody else uses. The one given back last comes first, so programs mostly see one loop."""
    try:
        return _idle.pop()
    except IndexError:
        return _started()


def give_back(loop: asyncio.AbstractEventLoop, *, idle: bool) -> None:
    """Let others use the loop: at once if nothing runs on it, else when it next finds time."""
    if idle:
        _idle.append(loop)
    else:
        loop.call_soon_threadsafe(_idle.append, loop)


def run_privately(function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on a private loop, and wait for its answer."""
    loop = borrow_loop()
    try:
        return asyncio.run_coroutine_threadsafe(function(*args), loop).result()
    finally:
        give_back(loop, idle=True)


def _started() -> asyncio.AbstractEventLoop:
    started: Future[asyncio.AbstractEventLoop] = Future()
    threading.Thread(target=_run_forever, args=(started,), name="statewright-loop", daemon=True).start()
    return started.result()


def _run_forever(started: Future[asyncio.AbstractEventLoop]) -> None:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    started.set_result(loop)
    loop.run_forever()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not survive a fork
