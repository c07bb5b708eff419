"""Event loops on threads of their own, for coroutine nodes of runs that are driven without one.

A coroutine node may call `invoke` again, which blocks the loop that it runs on. So a run that is started on the
thread of such a loop uses another one, one deeper.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

_local = threading.local()
_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def private_loop() -> asyncio.AbstractEventLoop:
    """A running loop that is not the one of the present thread."""
    depth = getattr(_local, "depth", 0)
    with _lock:
        if depth == len(_loops):
            _loops.append(_started(depth))
        return _loops[depth]


def run_privately(function: Callable[..., Any], *args: Any) -> Any:
    """Call a coroutine function on a private loop, and wait for its answer."""
    return asyncio.run_coroutine_threadsafe(function(*args), private_loop()).result()


def _started(depth: int) -> asyncio.AbstractEventLoop:
    started: Future[asyncio.AbstractEventLoop] = Future()
    name = f"statewright-loop-{depth}"
    threading.Thread(target=_run_forever, args=(depth, started), name=name, daemon=True).start()
    return started.result()


def _run_forever(depth: int, started: Future[asyncio.AbstractEventLoop]) -> None:
    _local.depth = depth + 1
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    started.set_result(loop)
    loop.run_forever()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loops.clear)  # threads do not survive a fork
