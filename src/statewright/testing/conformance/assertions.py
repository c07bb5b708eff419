"""Assertions of the conformance suites, which do not depend on a test framework."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def raises(kind: type[E], function: Callable[[], object]) -> E:
    """Return the exception that a call raises; fail if it raises none."""
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def run_concurrently(count: int, function: Callable[[int], object]) -> list[BaseException]:
    """Call a function concurrently on `count` threads, with the number of the thread; return the errors it raised."""
    barrier, errors = threading.Barrier(count), list[BaseException]()

    def call(number: int) -> None:
        barrier.wait()
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors
