"""Answers that come later.

Ports return what they are asked for, or a promise of it where another thread does the work. A `Future` of
`concurrent.futures` serves as well; a promise has its three methods that readers need, and costs a tenth, which counts
where each superstep of many runs waits for one. Nobody can cancel it: what was handed over is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Generic, Self, TypeGuard, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """An answer that some thread will give, and any other may wait for."""

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Self], object]] = []
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the answer is there."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """The answer, once it is there. Raises what was given in its place, and TimeoutError after so many seconds."""
        if not self.wait(timeout):
            raise TimeoutError(f"There was no answer within {timeout} seconds.")
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the answer is there, whatever it is; False if it is not after so many seconds."""
        if self._done:
            return True
        waiting = threading.Lock()
        waiting.acquire()
        self.add_done_callback(lambda _: waiting.release())
        return waiting.acquire(timeout=-1 if timeout is None else timeout)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call when the answer is there, on the thread that gives it; at once if it is. It must not raise."""
        self._callbacks.append(callback)
        if self._done:
            self._call_back()

    def set_result(self, value: T) -> None:
        """Give the answer."""
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """Say that there will be no answer, and why."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        self._call_back()

    def _call_back(self) -> None:
        """Call each once, though who adds one may do this while who answers does."""
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            callback(self)


Later = Promise[T] | Future[T]
Answered = T | Promise[T] | Future[T]
_LATER: Final = (Promise, Future)


def resolved(answer: Answered[T]) -> T:
    """Return an answer, waited for if it comes later."""
    return answer.result() if comes_later(answer) else answer  # pyright: ignore[reportReturnType]


def comes_later(answer: Answered[T]) -> TypeGuard[Later[T]]:
    """Whether an answer is not there yet, or was not when it was returned."""
    return isinstance(answer, _LATER)
