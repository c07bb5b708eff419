"""Futures: results that another thread provides later.

A method of a port returns its result, or a future of the result if another thread does the work. The future is a
`Future` of `concurrent.futures`, or a `LightFuture`, which has only the methods that its readers need, and is several
times cheaper to create and complete. That matters, because each superstep of many runs waits for such a future. A
`LightFuture` cannot be cancelled: work that was submitted is always done.

*Signals* make waiting hard. Python runs signal handlers on the main thread between any two instructions, and a handler
may raise an exception, or use the object that the interrupted code is changing. So nothing in this module holds a lock
while it changes state. Instead, each waiting thread has a lock of its own, which another thread releases to wake the
waiting thread, and only atomic methods of lists and deques are used.
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
    """A result that one thread sets, and for which any number of threads may wait."""

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
        """Wait for the result and return it. Raises the error that was set, or TimeoutError after `timeout` seconds."""
        if not self.wait(timeout):
            raise TimeoutError(f"There was no result within {timeout} seconds.")
        if self._error is not None:
            raise self._error
        return self._value

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the result or an error is set; return False if that takes longer than `timeout` seconds."""
        return wait_until_done(self, timeout)

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call `callback` on the thread that completes the future, or now if the future is done. It must not raise."""
        self._callbacks.append(callback)
        # `_end` may have run before the line above. Only this callback is called here, because this code may run in a
        # signal handler that has interrupted `_call_back`, which will call the others.
        if self._done:
            try:
                self._callbacks.remove(callback)
            except ValueError:  # the thread that completes the future has already taken it
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
        """Call each callback once, even if another thread concurrently adds a callback and calls it."""
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:
                return
            callback(self)


class SafeEvent(threading.Event):
    """An event that can be set anywhere, even in a finaliser, a signal handler or a garbage collector callback.

    `threading.Event` holds a lock in `set` and `wait`. Code that interrupts the thread that holds the lock, and sets
    the same event, would deadlock; a signal handler that raises an exception may leave the lock held forever.
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
        except BaseException:  # raised by a signal handler; the remaining sleepers must be woken nevertheless
            self._wake()
            raise

    def _wake(self) -> None:
        sleepers = self._sleepers
        while sleepers:
            try:
                sleeper = sleepers[0]
            except IndexError:  # another thread has called `set` as well
                return
            with suppress(RuntimeError):  # the lock is not held, because the sleeper is already awake
                sleeper.release()  # never blocks
            with suppress(ValueError):
                sleepers.remove(sleeper)  # last, so that the next call wakes the sleeper if this call is interrupted

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        if self._is_set:  # `set` may have been called before the line above, and then has not seen this sleeper
            return True
        if not _acquire(sleeper, timeout):
            with suppress(ValueError):  # `_wake` has removed the sleeper in the meantime
                self._sleepers.remove(sleeper)
            return self._is_set
        return True


AnyFuture = LightFuture[T] | Future[T]
MaybeFuture = T | LightFuture[T] | Future[T]
"""A value, or a future of it."""
_FUTURES: Final = (LightFuture, Future)


def resolve(value: MaybeFuture[T]) -> T:
    """Return a value as it is, or wait for a future and return its result."""
    if not is_future(value):
        return value  # pyright: ignore[reportReturnType]
    wait_until_done(value)
    return value.result()


def drive(generator: Generator[Any, Any, T], perform: Callable[[Any], Any] = resolve) -> T:
    """Run a generator to its end and return its result. Each value that it yields is passed to `perform`.

    The result of `perform` is sent to the generator. An exception of `perform` is raised inside the generator, except
    that a KeyboardInterrupt or SystemExit closes the generator and propagates. By default, the generator yields values
    or futures, and receives the values.
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
    """Block until a future is done, with a result or an error; return False after `timeout` seconds."""
    if future.done():
        return True
    lock = threading.Lock()
    lock.acquire()
    future.add_done_callback(lambda _: lock.release())
    return _acquire(lock, timeout)


def is_main_thread() -> bool:
    """Return True if this is the main thread, on which Python runs signal handlers."""
    return threading.get_ident() == threading.main_thread().ident


def _acquire(lock: threading.Lock, timeout: float | None) -> bool:
    """Block until another thread releases a lock; return False after `timeout` seconds.

    Python runs signal handlers between two instructions of the main thread. If a signal arrives just before that thread
    goes to sleep, or is delivered to another thread, its handler does not run until the sleep ends. But the sleep may
    never end, if only the handler could end it by cancelling a run or raising KeyboardInterrupt. So the main thread
    wakes up regularly.
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
    """Return True if a value is a future."""
    return isinstance(value, _FUTURES)
