"""Futures of other threads, awaited on an event loop.

Many runs on one loop may wait for one transaction, and waking a loop from another thread is expensive. So completed
waiters are put into a mailbox of the loop, and the loop is woken once to empty it.
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

    __slots__ = ("__weakref__", "_is_scheduled", "_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak, or no loop would ever be dropped: `_mailboxes` has it as a key
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        """True if the loop will call `_open`."""

    def deliver(self, waiter: asyncio.Future[None]) -> None:
        """Wake a waiter. Called from any thread."""
        self._waiters.append(waiter)
        if self._is_scheduled:
            return
        self._is_scheduled = True
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(self._open)
        except RuntimeError:  # the loop was closed, and its waiters with it
            self._waiters.clear()

    def _open(self) -> None:
        self._is_scheduled = False  # first: a waiter that is added from now on schedules another call
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

    A write in progress cannot be stopped, so a cancelled caller has to wait for its outcome. The caller reads the
    result of the future itself, since an error of it must not hide the cancellation.
    """
    cancellation: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await _wait(future)
        except asyncio.CancelledError as error:
            cancellation = error
    return cancellation


async def wait_for_all(futures: Iterable[asyncio.Future[Any]]) -> asyncio.CancelledError | None:
    """Wait until all futures are done, and return the cancellation that arrived meanwhile, as `wait_in_any_case`."""
    cancellation: asyncio.CancelledError | None = None
    while unfinished := [future for future in futures if not future.done()]:
        try:
            await asyncio.wait(unfinished)
        except asyncio.CancelledError as error:
            cancellation = error
    return cancellation


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
    """Return whether an event loop is running on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
