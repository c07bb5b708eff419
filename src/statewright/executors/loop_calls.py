"""Calls of one function that coroutines await on an event loop. Those that wait together are sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from statewright.executors.chunks import ChunkSizes
from statewright.executors.dispatcher import Dispatcher, ItemResult, RemoteItem
from statewright.executors.port import Executor, SharedValue


def _never() -> bool:
    return False


class LoopCalls:
    """The calls of one function on one event loop, the home of their dispatcher."""

    __slots__ = ("_cancelled", "_dispatcher", "_executor", "_is_scheduled", "_loop", "_waiting")

    def __init__(
        self,
        executor: Executor,
        function: SharedValue,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str,
        resources: Mapping[str, float],
        sizes: ChunkSizes,
        shared: Callable[[], Iterable[SharedValue]] = tuple,
    ) -> None:
        """See `Dispatcher`."""
        self._executor = executor
        self._loop = loop
        self._waiting: deque[RemoteItem] = deque()
        self._cancelled: set[RemoteItem] = set()
        self._is_scheduled = False
        self._dispatcher = Dispatcher(
            executor,
            function,
            name=name,
            resources=resources,
            take=self._take,
            unsent=lambda: len(self._waiting),
            deliver=self._deliver,
            post=self._post,
            shared=shared,
            sizes=sizes,
        )

    async def call(
        self, argument: Any, *, on_begin: Callable[[], object] | None = None, may_finish: Callable[[], bool] = _never
    ) -> ItemResult:
        """Return the result of one call.

        With `on_begin`, which is called when a worker begins with it, the call is sent alone. When the coroutine is
        cancelled, the call is too; one that is in progress continues if `may_finish()` is true.
        """
        if not self._executor.is_connected:
            await asyncio.to_thread(self._executor.connect)
        item = RemoteItem(self._loop.create_future(), argument, is_lone=on_begin is not None, on_begin=on_begin)
        self._waiting.append(item)
        self._schedule()
        try:
            while True:
                future: asyncio.Future[ItemResult] = item.key
                try:
                    return await future
                except asyncio.CancelledError:
                    has_result = future.done() and not future.cancelled()
                    if not (has_result or item.chunk is not None) or not may_finish():
                        raise
                    if not has_result:
                        item.key = self._loop.create_future()  # the cancellation has cancelled the other one
        except GeneratorExit:  # the coroutine was dropped, maybe in a finaliser and on another thread
            self._post(partial(self._cancel, item))
            raise
        except BaseException:
            self._cancel(item)
            raise

    def _schedule(self) -> None:
        """Send what waits in the next iteration of the loop, when the other coroutines have added their calls."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._feed)

    def _feed(self) -> None:
        self._is_scheduled = False
        if self._cancelled:
            cancelled, self._cancelled = self._cancelled, set()
            self._waiting = deque(item for item in self._waiting if item not in cancelled)
            self._dispatcher.cancel(cancelled)
        self._dispatcher.feed()

    def _cancel(self, item: RemoteItem) -> None:
        self._cancelled.add(item)
        self._schedule()

    def _take(self, count: int) -> list[RemoteItem]:
        return [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]

    def _deliver(self, item: RemoteItem, result: ItemResult) -> None:
        if not item.key.done():
            item.key.set_result(result)

    def _post(self, callback: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing waits on it
            self._loop.call_soon_threadsafe(callback)
