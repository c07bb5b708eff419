"""Exceptions of signal handlers at exact positions.

Python runs signal handlers on the main thread when a Python function starts and when a C function has returned. Tests
raise an exception there themselves: at the first such position, at the second, and so on, until the call ends earlier.
"""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

LONG = 600.0
"""Seconds after which a test fails. A test that passes never waits that long."""


_GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Interrupted(BaseException):
    """The exception of a signal handler. Like KeyboardInterrupt, it is not an `Exception`."""


def interruptions(call: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> Iterator[int]:
    """Repeat a call with an interruption at each of its positions in turn; yield after each interrupted call.

    `prepare` is called before each. The first call, which fills caches, is not interrupted.
    """
    assert threading.current_thread() is threading.main_thread()
    prepare()
    call()
    for number in itertools.count():
        prepare()
        if not was_interrupted(call, number):
            assert number, "the call has no position at which it could be interrupted"
            return
        yield number


def was_interrupted(call: Callable[[], Any], number: int) -> bool:
    """Interrupt a call at one position. Return False if the call ends before it.

    The garbage collector is disabled, because its callbacks would contain positions too.
    """
    remaining = number

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal remaining
        # Python does not check for signals between `__enter__` of a lock and the block.
        if event not in ("call", "c_return") or getattr(arg, "__name__", "") in ("__enter__", "setprofile"):
            return
        # An exception of a profiler would end a generator that continues without running its handlers; one of a signal
        # handler is raised inside the generator.
        if event == "call" and frame.f_code.co_flags & _GENERATOR:
            return
        remaining -= 1
        if remaining < 0:
            sys.setprofile(None)
            raise Interrupted(f"{event} in {frame.f_code.co_qualname}")

    was_enabled = gc.isenabled()
    gc.disable()
    sys.setprofile(profile)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.setprofile(None)
        if was_enabled:
            gc.enable()
    return remaining < 0  # the call may have caught the exception


def on_another_thread(call: Callable[[], Any]) -> Any:
    """Make a call on a thread other than the main one, and return its result. Fail if it hangs."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive(), "the call hangs on another thread"
    assert results, "the call failed on another thread"
    return results[0]
