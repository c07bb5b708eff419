"""Answers that come later.

Ports return what they are asked for, or a promise of it where another thread does the work. A `Future` of
`concurrent.futures` serves as well; a promise has its three methods that readers need, and costs a tenth, which counts
where each superstep of many runs waits for one. Nobody can cancel it: what was handed over is done.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Generic, Self, TypeGuard, TypeVar

T = TypeVar("T")
SIGNAL_POLL_SECONDS: Final = 0.25
"""How often the main thread wakes while it waits, to run signal handlers that would wait with it. In seconds."""


class LightFuture(Generic[T]):
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
        return wait_until_done(self, timeout)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call when the answer is there, on the thread that gives it; at once if it is. It must not raise."""
        self._callbacks.append(callback)
        if self._done:  # only this one: a signal handler may interrupt this thread, and others wait for theirs
            try:
                self._callbacks.remove(callback)
            except ValueError:  # who answers has called it
                return
            callback(self)

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


class SafeEvent(threading.Event):
    """An event that may be set anywhere: in a finaliser, a signal handler, a callback of the garbage collector.

    Those of `threading` hold a lock while they are set and waited for. Code that interrupts the thread that holds it,
    and sets the same event, would wait for itself; a signal handler that raises may leave it held for good.
    """

    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]  # without the lock of the base class
        self._is_set = False
        self._sleepers: deque[threading.Lock] = deque()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        try:
            self._wake()
        except BaseException:  # of a signal handler: all are woken, even so
            self._wake()
            raise

    def _wake(self) -> None:
        sleepers = self._sleepers
        while sleepers:
            try:
                sleeper = sleepers[0]
            except IndexError:  # another thread sets it, too
                return
            with suppress(RuntimeError):  # it was woken before
                sleeper.release()  # releasing never waits
            with suppress(ValueError):
                sleepers.remove(sleeper)  # only now: who is interrupted before this wakes it again

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        if self._is_set:  # `set` may have come before the line above, and has woken nobody then
            return True
        if not _acquire(sleeper, timeout):
            with suppress(ValueError):  # it was woken at the last moment
                self._sleepers.remove(sleeper)
            return self._is_set
        return True


AnyFuture = LightFuture[T] | Future[T]
MaybeFuture = T | LightFuture[T] | Future[T]
_LATER: Final = (LightFuture, Future)


def resolve(answer: MaybeFuture[T]) -> T:
    """Return an answer, waited for if it comes later."""
    if not is_future(answer):
        return answer  # pyright: ignore[reportReturnType]
    wait_until_done(answer)
    return answer.result()


def drive(generator: Generator[Any, Any, T], perform: Callable[[Any], Any] = resolve) -> T:
    """Run a generator to its end, and return its result. It is sent the result of `perform` for each yielded value.

    By default a generator yields values that may be futures. An error of `perform` is raised inside the generator; a
    KeyboardInterrupt or another signal closes it first.
    """
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            pending = generator.send(value) if error is None else generator.throw(error)
        except StopIteration as end:
            return end.value
        value = error = None
        try:
            value = perform(pending)
        except Exception as raised:
            error = raised
        except BaseException:
            generator.close()
            raise


def wait_until_done(answer: AnyFuture[Any], timeout: float | None = None) -> bool:
    """Block until a promise or future is done, however it ends. Return False if it is not after so many seconds."""
    if answer.done():
        return True
    waiting = threading.Lock()
    waiting.acquire()
    answer.add_done_callback(lambda _: waiting.release())
    return _acquire(waiting, timeout)


def is_main_thread() -> bool:
    """Return whether this is the main thread, the one on which Python runs signal handlers."""
    return threading.get_ident() == threading.main_thread().ident


def _acquire(lock: threading.Lock, timeout: float | None) -> bool:
    """Block until another thread releases a lock. Return False if none has after so many seconds.

    Python runs signal handlers between two instructions of the main thread. If a signal comes after the last one, but
    before the thread has gone to sleep, or comes to another thread, the sleep goes on, and the handler waits for its
    end. Where the handler is what would end it (it cancels a run, or raises KeyboardInterrupt) that is for ever, so
    the main thread looks up now and then.
    """
    if not is_main_thread():
        return lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0))
    if timeout is None:
        while not lock.acquire(timeout=SIGNAL_POLL_SECONDS):
            pass
        return True
    ends = time.monotonic() + timeout
    while not lock.acquire(timeout=min(max(timeout, 0.0), SIGNAL_POLL_SECONDS)):
        timeout = ends - time.monotonic()
        if timeout <= 0:
            return False
    return True


def is_future(answer: MaybeFuture[T]) -> TypeGuard[AnyFuture[T]]:
    """Whether an answer is not there yet, or was not when it was returned."""
    return isinstance(answer, _LATER)
