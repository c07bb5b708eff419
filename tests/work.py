"""The cost of tests: work is counted instead of measured in seconds, and costly tests have a full length.

Executed lines and calls of Python are counted. The work inside of a C function, such as a match of a regular
expression, is not: `spend_at_most` limits its processor time, far above a linear and far below an exponential cost.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

FULL = os.environ.get("STATEWRIGHT_FULL") == "1"
"""True in `make test-full`: tests with random examples, kills or combinations run in full."""
GROWTH = 2.25
"""The limit of the factor of work for twice the size: linear, with some room for growth in steps."""
SECONDS = 60.0
"""Seconds of processor time."""


def examples(count: int) -> int:
    """Return the number of examples of a property: `count` in the full suite, fewer otherwise."""
    return count if FULL else max(count // 5, 10)


def count_work(function: Callable[[], object]) -> int:
    """Call a function, and return the number of its lines and calls on this thread.

    The garbage collector is disabled, because its callbacks are not the work of the function.
    """
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "c_call"

    old_trace, old_profile = sys.gettrace(), sys.getprofile()
    was_enabled = gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(old_profile)
        sys.settrace(old_trace)
        if was_enabled:
            gc.enable()
    return count


def check_linear(prepare: Callable[[int], Callable[[], object]], size: int) -> None:
    """Check that the work is linear, at one, two and four times the size.

    `prepare` returns the function whose work is counted; its own work is not counted.
    """
    prepare(size)()  # fills the caches
    small, double, quadruple = (count_work(prepare(size * factor)) for factor in (1, 2, 4))
    assert double <= GROWTH * small, f"{small} for {size}, {double} for twice the size"
    assert quadruple <= GROWTH * double, f"{double} for {2 * size}, {quadruple} for twice the size"


@contextmanager
def spend_at_most(seconds: float = SECONDS) -> Iterator[None]:
    """Fail if the block takes more processor time than this. The load of the machine does not matter.

    Choose sizes for which a linear algorithm takes a moment, and an exponential one hours.
    """

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"The block has taken {seconds:g} seconds of processor time without ending.")

    if not hasattr(signal, "ITIMER_PROF"):
        yield
        return
    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def longer_and_longer(seconds: float = 0.5) -> Iterator[float]:
    """Yield growing time limits, for tests of an operation that must start within the limit, and be abandoned at it.

    Stop at the first limit in which the operation could start on this machine; the last one suffices for any.
    """
    while seconds <= 2 * SECONDS:
        yield seconds
        seconds *= 4


def wait_until(holds: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait until another thread makes a condition true; fail after a time that only a hang takes."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the condition is still false"
        time.sleep(0.005)
