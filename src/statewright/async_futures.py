"""Futures of other threads, awaited on an event loop.

Many runs on one loop may wait for one transaction. So the thread that completes their futures does not wake the loop
once for each of them: completed waiters are put into the loop's mailbox, and the loop is woken once to empty it.
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
    """The waiters of one loop whose futures are done."""

    __slots__ = ("__weakref__", "_loop", "_rung", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak, or no loop would ever be dropped: `_mailboxes` has it as a key
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._rung = False

    def deliver(self, waiter: asyncio.Future[None]) -> None:
        """Wake a waiter. Called from any thread."""
        self._waiters.append(waiter)
        if self._rung:
            return
        self._rung = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._open)
        except RuntimeError:  # the loop was closed, and its waiters with it
            self._waiters.clear()

    def _open(self) -> None:
        self._rung = False  # first: a waiter that is added from now on rings again
        waiters = self._waiters
        while waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()


async def await_future(future: AnyFuture[T]) -> T:
    """Await the result of a future. If the wait is cancelled, the work continues."""
    if not future.done():
        await _wait(future)
    return future.result()


async def _wait(future: AnyFuture[Any]) -> None:
    loop = asyncio.get_running_loop()
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = _Mailbox(loop)
    waiter: asyncio.Future[None] = loop.create_future()
    deliver = mailbox.deliver
    future.add_done_callback(lambda _: deliver(waiter))
    await waiter


async def wait_in_any_case(future: AnyFuture[Any]) -> asyncio.CancelledError | None:
    """Wait until a future is done, and return the cancellation that arrived meanwhile, if any.

    A write in progress cannot be stopped, so a cancelled caller first learns its outcome. Read the result of the future
    afterwards: an error of it must not hide the cancellation.
    """
    signal: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await _wait(future)
        except asyncio.CancelledError as cancelled:
            signal = cancelled
    return signal


async def wait_for_all(futures: Iterable[asyncio.Future[Any]]) -> asyncio.CancelledError | None:
    """Wait until all futures are done, and return the cancellation that arrived meanwhile, as `wait_in_any_case`."""
    signal: asyncio.CancelledError | None = None
    while left := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(left)
        except asyncio.CancelledError as cancelled:
            signal = cancelled
    return signal


async def aresolve(value: Any) -> Any:
    """Return a value, or the result of a future after awaiting it."""
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
    """Wait on the event loop for so many seconds of a clock."""
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(is_over.set)

    timer = clock.call_later(seconds, wake)
    try:
        await is_over.wait()
    finally:
        timer.cancel()


def is_on_loop() -> bool:
    """True if an event loop is running on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
