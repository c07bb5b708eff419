"""Streams of server-sent events.

All pending events are sent together. If a client is slow, its stream reads events from the source more slowly, so that
they do not fill the server's memory. A stream ends when its source ends, the client disconnects, the client's API key
becomes invalid or the shutdown begins. A client that reconnects sends the id of the last event that it received.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, nullcontext
from typing import Final, cast

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from statewright.runs import RunEvent
from statewright.server.context.auth import Caller
from statewright.service import LiveEvent

_HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}
_HIGH_WATER_MARK: Final = 256 * 1024
"""Pending bytes above which reading from the source is paused."""
_HEARTBEAT: Final = b": still here\n\n"


class EventStream(Response):
    """A response that sends the events of a source as they arrive."""

    def __init__(
        self, source: AsyncIterator[RunEvent | LiveEvent | bytes], caller: Caller, headers: Mapping[str, str] = {}
    ) -> None:
        """Create a response with the events that `source` yields, which may be encoded already.

        Raises TooManyRequests if the caller's workspace already has the maximum number of open streams.
        """
        caller.context.streams.check_capacity(caller.workspace_id)
        super().__init__(None, 200, {**_HEADERS, **headers})
        del self.headers["content-length"]
        self._source = source
        self._caller = caller
        self._context = caller.context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        buffer = _EventBuffer(self._context.settings.heartbeat)
        fill_task = asyncio.ensure_future(self._fill(buffer))

        def stop() -> None:
            fill_task.cancel()
            buffer.stop()

        def disconnect() -> None:
            buffer.is_disconnected = True
            stop()

        tasks = [fill_task, asyncio.ensure_future(_watch_disconnect(receive, disconnect))]
        unregister = self._context.shutdown.register(stop)
        metrics = self._context.metrics
        try:
            registration = self._context.streams.register(
                self._caller.workspace_id, self._caller.key, stop, self._caller.session_id
            )
            with registration, metrics.track_event_stream() if metrics is not None else nullcontext():
                await self._send(buffer, send)
        finally:
            unregister()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, buffer: _EventBuffer, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while chunk := await buffer.take():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if buffer.error is not None:
            raise buffer.error  # breaks the connection, so that the client does not take the stream for complete
        if not buffer.is_disconnected:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _fill(self, buffer: _EventBuffer) -> None:
        encode = self._context.event_cache.encode
        try:
            async with aclosing(cast("AsyncGenerator[RunEvent | LiveEvent | bytes]", self._source)) as events:
                async for event in events:
                    buffer.put(event if isinstance(event, bytes) else encode(event))
                    if buffer.is_full:
                        await buffer.wait_until_drained()
        except Exception as error:
            buffer.error = error
        finally:
            buffer.end()


class _EventBuffer:
    """A buffer of encoded events, with one producer, which reads the source, and one consumer, which sends them."""

    def __init__(self, heartbeat: float) -> None:
        """Create an empty buffer. `heartbeat` is the number of seconds without events before a heartbeat is due."""
        self._loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat
        self._pending: list[bytes] = []
        self._size = 0
        """The size of the pending events, in bytes."""
        self._consumer_waiter: asyncio.Future[bool] | None = None
        """Awaited by the consumer while no events are pending."""
        self._producer_waiter: asyncio.Future[bool] | None = None
        """Awaited by the producer while the buffer is full."""
        self._has_ended = False
        self.error: Exception | None = None
        """The error that ended the source."""
        self.is_disconnected = False
        """True if the client has disconnected."""

    def put(self, event: bytes) -> None:
        """Add an encoded event."""
        self._pending.append(event)
        self._size += len(event)
        _wake(self._consumer_waiter)

    @property
    def is_full(self) -> bool:
        return self._size > _HIGH_WATER_MARK

    async def wait_until_drained(self) -> None:
        """Wait until the consumer has taken the pending events."""
        self._producer_waiter = self._loop.create_future()
        await self._producer_waiter

    def end(self) -> None:
        """Record that no more events will be added. Pending events can still be taken."""
        self._has_ended = True
        _wake(self._consumer_waiter)

    def stop(self) -> None:
        """End the buffer and discard pending events."""
        self._pending.clear()
        self._size = 0
        self.end()

    async def take(self) -> bytes:
        """Wait for events, and return all pending ones as one chunk.

        Return a heartbeat if none arrive for a while, and b"" after the last event.
        """
        if not self._pending and not self._has_ended:
            await self._wait_for_events()
        if not self._pending:
            return b"" if self._has_ended else _HEARTBEAT
        chunk = b"".join(self._pending)
        self._pending.clear()
        self._size = 0
        _wake(self._producer_waiter)
        return chunk

    async def _wait_for_events(self) -> None:
        """Wait until events arrive, the source ends or a heartbeat is due."""
        self._consumer_waiter = self._loop.create_future()
        timer = self._loop.call_later(self._heartbeat, _wake, self._consumer_waiter)
        try:
            await self._consumer_waiter
        finally:
            timer.cancel()
            self._consumer_waiter = None


def _wake(waiter: asyncio.Future[bool] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(True)


async def _watch_disconnect(receive: Receive, disconnect: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect()
