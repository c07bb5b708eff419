"""Awaiting futures that other threads complete.

Many runs on an event loop may wait for one transaction, and it is expensive to wake a loop from another thread. So each
loop has a mailbox, which contains the waiters whose futures are done. The thread that completes the futures puts their
waiters into the mailbox, and schedules a single call on the loop that wakes all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from statewright.clock import Clock
from statewright.futures import AnyFuture, is_future

T = TypeVar("T")


class _Mailbox:
    """The waiters on an event loop that must be woken, because the futures that they wait for are done."""

    __slots__ = ("__weakref__", "_is_scheduled", "_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak: a strong reference from a value of `_mailboxes` would keep its key alive
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        """True if a call of `_wake_all` is scheduled on the loop."""

    def put(self, waiter: asyncio.Future[None]) -> None:
        """Let the loop wake a waiter. Thread-safe."""
        self._waiters.append(waiter)
        if self._is_scheduled:
            return
        self._is_scheduled = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._wake_all)
        except RuntimeError:  # the loop was closed, so nothing waits on it
            self._waiters.clear()

    def _wake_all(self) -> None:
        self._is_scheduled = False  # first, so that `put` schedules another call from now on
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()


async def await_future(future: AnyFuture[T]) -> T:
    """Await the result of a future. If the caller is cancelled, the work behind the future continues."""
    if not future.done():
        await _wait(future)
    return future.result()


async def _wait(future: AnyFuture[Any]) -> None:
    loop = asyncio.get_running_loop()
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = _Mailbox(loop)
    waiter: asyncio.Future[None] = loop.create_future()
    put = mailbox.put
    future.add_done_callback(lambda _: put(waiter))
    await waiter


async def wait_uncancelled(future: AnyFuture[Any]) -> asyncio.CancelledError | None:
    """Wait until a future is done, even if the caller is cancelled, and return the cancellation if there was one.

    A write in progress cannot be stopped, so a cancelled caller has to wait for its outcome. The caller then reads the
    result of the future, and raises the cancellation even if the future has an error.
    """
    cancellation: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await _wait(future)
        except asyncio.CancelledError as error:
            cancellation = error
    return cancellation


async def wait_for_all(futures: Iterable[asyncio.Future[Any]]) -> asyncio.CancelledError | None:
    """Wait until all futures are done, even if the caller is cancelled. The result is as for `wait_uncancelled`."""
    cancellation: asyncio.CancelledError | None = None
    while unfinished := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancellation = error
    return cancellation


async def aresolve(value: Any) -> Any:
    """Return a value as it is, or await a future and return its result."""
    return await await_future(value) if is_future(value) else value


async def adrive(generator: Generator[Any, Any, T], perform: Callable[[Any], Awaitable[Any]] = aresolve) -> T:
    """Run a generator to its end like `futures.drive`, without blocking the event loop."""
    value: Any = None
    error: Exception | None = None
    while True:
        try:
            pending = generator.send(value) if error is None else generator.throw(error)
        except StopIteration as end:
            return end.value
        value = error = None
        try:
            value = await perform(pending)
        except Exception as raised:
            error = raised
        except BaseException:
            generator.close()
            raise


async def sleep(clock: Clock, seconds: float) -> None:
    """Sleep for a number of seconds, as measured by a clock, without blocking the event loop."""
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(is_over.set)

    timer = clock.call_later(seconds, wake)
    try:
        await is_over.wait()
    finally:
        timer.cancel()


def is_on_loop() -> bool:
    """Return True if an event loop is running on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
