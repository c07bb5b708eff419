"""Exceptions of signal handlers, placed exactly.

Python runs handlers of signals on the main thread when a function begins and when a call of C has returned. So tests
raise there themselves, at the first such place, at the second, and so on until the call ends before its turn comes.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

LONG = 600.0
"""Seconds after which a test is given up. No test waits that long if it passes."""


class Interrupted(BaseException):
    """What a signal handler raises: like KeyboardInterrupt no `Exception`."""


def interruptions(call: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> Iterator[int]:
    """Make a call again and again, each time with an interruption at a later place; yields after each that had one.

    Each is made after `prepare`. The first, which fills caches, is not interrupted.
    """
    assert threading.current_thread() is threading.main_thread()
    prepare()
    call()
    for number in itertools.count():
        prepare()
        if not was_interrupted(call, number):
            assert number, "the call has no place where it could be interrupted"
            return
        yield number


def was_interrupted(call: Callable[[], Any], number: int) -> bool:
    """Make a call that is interrupted at one place; False if it ends before.

    The collector is off: the place may not be one in a callback that somebody else has given it.
    """
    left = number

    def hear(frame: Any, event: str, told: Any) -> None:
        nonlocal left
        # Between `__enter__` of a lock and its block Python does not look for signals.
        if event not in ("call", "c_return") or getattr(told, "__name__", "") in ("__enter__", "setprofile"):
            return
        left -= 1
        if left < 0:
            sys.setprofile(None)
            raise Interrupted(f"{event} in {frame.f_code.co_qualname}")

    collecting = gc.isenabled()
    gc.disable()
    sys.setprofile(hear)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.setprofile(None)
        if collecting:
            gc.enable()
    return left < 0  # a job may have kept it for itself


def on_another_thread(call: Callable[[], Any]) -> Any:
    """What a call answers on a thread that is not the main one. Fails if it waits for ever."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive(), "another thread waits for ever"
    assert answers, "the call failed on another thread"
    return answers[0]
