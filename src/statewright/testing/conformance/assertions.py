"""Helpers for assertions in the conformance suites, which do not depend on a test framework."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def raises(cls: type[E], function: Callable[[], object]) -> E:
    """Call a function and return the exception of class `cls` that it raises; fail if it raises none."""
    try:
        function()
    except cls as error:
        return error
    raise AssertionError(f"{cls.__name__} was not raised")


def run_concurrently(count: int, function: Callable[[int], object]) -> list[BaseException]:
    """Call a function once on each of `count` threads, and return the errors that it raised.

    Its argument is the number of the thread, from 0. The calls start at the same time.
    """
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
