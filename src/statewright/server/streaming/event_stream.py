"""Streams of server-sent events.

Each event has the lines `event`, `data` and `id`. Pending events are sent together. A client that reads slowly slows
down the reading of its own source, so that it does not fill the memory of the server. The stream ends when its source
ends, the client disconnects, its key is revoked, or the shutdown begins; a reconnecting client sends the id of the last
event that it received."""

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
_HIGH_WATER: Final = 256 * 1024
"""Pending bytes above which reading from the source pauses."""
_HEARTBEAT: Final = b": still here\n\n"


class EventStream(Response):
    """Sends events until their source ends, the client disconnects, or the server stops."""

    def __init__(
        self, source: AsyncIterator[RunEvent | LiveEvent], caller: Caller, headers: Mapping[str, str] = {}
    ) -> None:
        """Raises TooManyRequests if the workspace has reached its limit of streams."""
        caller.context.streams.check_room(caller.workspace_id)
        super().__init__(None, 200, {**_HEADERS, **headers})
        del self.headers["content-length"]
        self._source = source
        self._caller = caller
        self._context = caller.context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        buffer = _EventBuffer(self._context.settings.heartbeat)
        fill_task = asyncio.ensure_future(self._fill(buffer))

        def stop() -> None:
            fill_task.cancel()  # it adds nothing more
            buffer.stop()

        def disconnect() -> None:
            buffer.is_disconnected = True
            stop()

        tasks = [fill_task, asyncio.ensure_future(_watch_disconnect(receive, disconnect))]
        unregister = self._context.closing.register(stop)
        metrics = self._context.metrics
        try:
            counted = self._context.streams.open_stream(self._caller.workspace_id, self._caller.key, stop)
            with counted, metrics.sse_client() if metrics is not None else nullcontext():
                await self._send(buffer, send)
        finally:
            unregister()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, buffer: _EventBuffer, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while piece := await buffer.take():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if buffer.failure is not None:
            raise buffer.failure  # breaks the connection, so that the client does not take it for the end
        if not buffer.is_disconnected:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _fill(self, buffer: _EventBuffer) -> None:
        encode = self._context.event_bytes.encode
        try:
            async with aclosing(cast("AsyncGenerator[RunEvent | LiveEvent]", self._source)) as events:
                async for event in events:
                    buffer.put(encode(event))
                    if buffer.is_full:
                        await buffer.wait_until_drained()
        except Exception as error:
            buffer.failure = error
        finally:
            buffer.end()


class _EventBuffer:
    """A buffer of encoded events between the source and the connection."""

    def __init__(self, heartbeat: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat
        self._ready: list[bytes] = []
        self._size = 0
        self._reader: asyncio.Future[bool] | None = None
        self._writer: asyncio.Future[bool] | None = None
        self._ended = False
        self.failure: Exception | None = None
        """The error that ended the source."""
        self.is_disconnected = False
        """True if the client has disconnected."""

    def put(self, piece: bytes) -> None:
        self._ready.append(piece)
        self._size += len(piece)
        _wake(self._reader)

    @property
    def is_full(self) -> bool:
        return self._size > _HIGH_WATER

    async def wait_until_drained(self) -> None:
        """Wait until the pending pieces have been taken."""
        self._writer = self._loop.create_future()
        await self._writer

    def end(self) -> None:
        """Close the buffer; pending pieces can still be taken."""
        self._ended = True
        _wake(self._reader)

    def stop(self) -> None:
        """Close the buffer, and discard pending pieces."""
        self._ready.clear()
        self._size = 0
        self.end()

    async def take(self) -> bytes:
        """Wait for pieces and return all that are pending; a heartbeat after a long silence; no bytes at the end."""
        if not self._ready and not self._ended:
            await self._wait()
        if not self._ready:
            return b"" if self._ended else _HEARTBEAT
        piece = b"".join(self._ready)
        self._ready.clear()
        self._size = 0
        _wake(self._writer)
        return piece

    async def _wait(self) -> None:
        self._reader = self._loop.create_future()
        timer = self._loop.call_later(self._heartbeat, _wake, self._reader)
        try:
            await self._reader
        finally:
            timer.cancel()
            self._reader = None


def _wake(waiter: asyncio.Future[bool] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(True)


async def _watch_disconnect(receive: Receive, disconnect: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect()
