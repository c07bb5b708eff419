"""Futures: results that another thread provides later.

A method of a port returns its result, or a future of it if another thread does the work. This may be a `Future` of
`concurrent.futures`. A `LightFuture` has only the methods that its readers need and costs a tenth, which matters
because each superstep of many runs waits for one. It cannot be cancelled: work that was handed over is always done.

*Signals* make waiting hard. Python runs signal handlers on the main thread between any two instructions, and a handler
may raise or use the same object. So nothing here holds a lock while it changes state: each waiting thread has a lock of
its own, which another thread releases, and the methods of lists and deques that are used are atomic.
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
"""The interval at which the waiting main thread wakes to run signal handlers; see `_acquire`."""


class LightFuture(Generic[T]):
    """A result that one thread sets and any others may wait for."""

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Self], object]] = []
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Return True once the result or an error is set."""
        return self._done

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it. Raises the error that was set, or TimeoutError after so many seconds."""
        if not self.wait(timeout):
            raise TimeoutError(f"There was no result within {timeout} seconds.")
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the result or an error is set; return False if neither is after so many seconds."""
        return wait_until_done(self, timeout)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call back once the future is done, on the thread that sets it; at once if it is. Callbacks must not raise."""
        self._callbacks.append(callback)
        # `_end` may have run before the line above. Only this callback is called here: a signal handler may have
        # interrupted this thread in `_call_back`, which then calls the others.
        if self._done:
            try:
                self._callbacks.remove(callback)
            except ValueError:  # the other thread has called it
                return
            callback(self)

    def set_result(self, value: T) -> None:
        """Set the result."""
        self._value = value
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """Set an error in place of a result."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._done = True
        self._call_back()

    def _call_back(self) -> None:
        """Call each callback once, even if a thread that adds one does this concurrently."""
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            callback(self)


class SafeEvent(threading.Event):
    """An event that may be set anywhere: in a finaliser, a signal handler, a callback of the garbage collector.

    The events of `threading` hold a lock while they are set and waited for. Code that interrupts the thread that holds
    it, and sets the same event, would deadlock; a signal handler that raises may leave it locked for good.
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
        except BaseException:  # of a signal handler: all sleepers are woken, even so
            self._wake()
            raise

    def _wake(self) -> None:
        sleepers = self._sleepers
        while sleepers:
            try:
                sleeper = sleepers[0]
            except IndexError:  # another thread sets it, too
                return
            with suppress(RuntimeError):  # it is already awake
                sleeper.release()  # releasing never blocks
            with suppress(ValueError):
                sleepers.remove(sleeper)  # last, so that an interrupted call leaves the sleeper to the next one

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        if self._is_set:  # `set` may have run before the line above, and has not seen this sleeper
            return True
        if not _acquire(sleeper, timeout):
            with suppress(ValueError):  # it was woken at the last moment
                self._sleepers.remove(sleeper)
            return self._is_set
        return True


AnyFuture = LightFuture[T] | Future[T]
MaybeFuture = T | LightFuture[T] | Future[T]
_FUTURES: Final = (LightFuture, Future)


def resolve(value: MaybeFuture[T]) -> T:
    """Return a value, or the result of a future after waiting for it."""
    if not is_future(value):
        return value  # pyright: ignore[reportReturnType]
    wait_until_done(value)
    return value.result()


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


def wait_until_done(future: AnyFuture[Any], timeout: float | None = None) -> bool:
    """Block until a future is done, however it ends. Return False if it is not after so many seconds."""
    if future.done():
        return True
    waiting = threading.Lock()
    waiting.acquire()
    future.add_done_callback(lambda _: waiting.release())
    return _acquire(waiting, timeout)


def is_main_thread() -> bool:
    """Return whether this is the main thread, the one on which Python runs signal handlers."""
    return threading.get_ident() == threading.main_thread().ident


def _acquire(lock: threading.Lock, timeout: float | None) -> bool:
    """Block until another thread releases a lock. Return False if none has after so many seconds.

    Python runs signal handlers between two instructions of the main thread. If a signal arrives just before the thread
    goes to sleep, or at another thread, the handler does not run before the sleep ends. That could be never, if it is
    the handler that would end it (it cancels a run, or raises KeyboardInterrupt). So the main thread wakes regularly.
    """
    if not is_main_thread():
        return lock.acquire(timeout=-1 if timeout is None else max(timeout, 0.0))
    if timeout is None:
        while not lock.acquire(timeout=SIGNAL_POLL_SECONDS):
            pass
        return True
    deadline = time.monotonic() + timeout
    while not lock.acquire(timeout=min(max(timeout, 0.0), SIGNAL_POLL_SECONDS)):
        timeout = deadline - time.monotonic()
        if timeout <= 0:
            return False
    return True


def is_future(value: MaybeFuture[T]) -> TypeGuard[AnyFuture[T]]:
    """Return True for a future, whether it is done or not."""
    return isinstance(value, _FUTURES)
