"""Signals that end a process which advances runs: the first two are handled, the third one kills."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def handling_signals(handle: Callable[[signal.Signals], object]) -> Generator[None]:
    """Call a function on the event loop for the first two signals that end a process. A third one kills it."""
    loop, count = asyncio.get_running_loop(), 0

    def on_signal(number: int, frame: object) -> None:
        nonlocal count
        count += 1
        if count > 1:
            for handled in _SIGNALS:
                signal.signal(handled, signal.SIG_DFL)
        loop.call_soon_threadsafe(handle, signal.Signals(number))

    previous = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
