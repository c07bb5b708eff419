"""How much a test does: work that is counted instead of seconds, and the full length of tests that cost much.

Lines of Python and calls are counted. What happens inside one call of C, such as a match of a regular expression, is
not: there `spend_at_most` bounds the processor time, far above what is needed and far below what an explosion takes.
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
"""Whether tests that draw, kill or try every combination do all that they can: `make test-full`."""
GROWTH = 2.25
"""At most so many times the work for twice the size: linear, with some room for what grows in steps."""
SECONDS = 60.0
"""Of processor time."""


def examples(count: int) -> int:
    """How many examples a property is tried with that is tried with `count` in the full suite."""
    return count if FULL else max(count // 5, 10)


def count_work(function: Callable[[], object]) -> int:
    """Call a function, and count the lines and calls that it takes in this thread.

    The collector is off: what it calls back is no work of the function.
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
    collecting = gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(old_profile)
        sys.settrace(old_trace)
        if collecting:
            gc.enable()
    return count


def check_linear(prepare: Callable[[int], Callable[[], object]], size: int) -> None:
    """See that the work grows no faster than the size: at one, two and four times of it.

    `prepare` makes what is counted; what it does itself is not.
    """
    prepare(size)()  # fills the caches
    small, double, quadruple = (count_work(prepare(size * factor)) for factor in (1, 2, 4))
    assert double <= GROWTH * small, f"{small} for {size}, {double} for twice as much"
    assert quadruple <= GROWTH * double, f"{double} for {2 * size}, {quadruple} for twice as much"


@contextmanager
def spend_at_most(seconds: float = SECONDS) -> Iterator[None]:
    """Fail if what is done here takes more processor time than this. How busy the machine is does not matter.

    Choose sizes for which the honest way takes a moment, and the explosion hours.
    """

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"This has taken {seconds:g} seconds of processor time, and is not done.")

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
    """Limits of time for something that has to begin within one, and then to be given up at its end.

    Take the first that was long enough for this machine; the last is longer than anybody needs.
    """
    while seconds <= 2 * SECONDS:
        yield seconds
        seconds *= 4


def until(holds: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait until a condition holds that another thread brings about; fail after a time that only a hang takes."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.005)
