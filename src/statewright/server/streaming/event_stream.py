"""Streams of server-sent events.

Each event is `event`, one line of `data` and `id`, in this order. Pending events are sent together, and a client that
reads slowly holds back its own stream, not the memory of the server. The stream ends when its source ends, the client
disconnects, its key is revoked, or the server is about to stop; a reconnecting client sends the id that it saw last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
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
_HELD: Final = 256 * 1024
"""Pending bytes at which reading from the source pauses."""
_HEARTBEAT: Final = b": still here\n\n"


class EventStream(Response):
    """Sends events until their source ends, the client disconnects, or the server stops."""

    def __init__(
        self, source: AsyncIterator[RunEvent | LiveEvent], caller: Caller, headers: Mapping[str, str] = {}
    ) -> None:
        """Raises TooManyRequests for a workspace that reads too many streams."""
        caller.context.streams.check_room(caller.workspace_id)
        super().__init__(None, 200, {**_HEADERS, **headers})
        del self.headers["content-length"]
        self._source = source
        self._caller = caller
        self._context = caller.context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outlet = _Outlet(self._context.settings.heartbeat)
        filling = asyncio.ensure_future(self._fill(outlet))

        def stop() -> None:
            filling.cancel()  # it puts nothing more
            outlet.stop()

        def leave() -> None:
            outlet.left = True
            stop()

        tasks = [filling, asyncio.ensure_future(_notice_leaving(receive, leave))]
        forget = self._context.closing.tell(stop)
        metrics = self._context.metrics
        try:
            reading = self._context.streams.reading(self._caller.workspace_id, self._caller.key, stop)
            with reading, metrics.sse_client() if metrics is not None else nullcontext():
                await self._send(outlet, send)
        finally:
            forget()
            await _stopped(tasks)

    async def _send(self, outlet: _Outlet, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while piece := await outlet.take():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if outlet.failure is not None:  # abort, so that it is not taken for the end
            raise outlet.failure
        if not outlet.left:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _fill(self, outlet: _Outlet) -> None:
        bytes_of = self._context.event_bytes.of
        try:
            async with aclosing(cast("AsyncGenerator[RunEvent | LiveEvent]", self._source)) as events:
                async for event in events:
                    outlet.put(bytes_of(event))
                    if outlet.is_full:
                        await outlet.drained()
        except Exception as error:
            outlet.failure = error
        finally:
            outlet.end()


class _Outlet:
    """A buffer of encoded events between the source and the connection."""

    def __init__(self, heartbeat: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = heartbeat
        self._ready: list[bytes] = []
        self._size = 0
        self._taker: asyncio.Future[bool] | None = None
        self._filler: asyncio.Future[bool] | None = None
        self._ended = False
        self.failure: Exception | None = None
        """The error that ended the source."""
        self.left = False
        """True if the client has disconnected."""

    def put(self, piece: bytes) -> None:
        self._ready.append(piece)
        self._size += len(piece)
        _wake(self._taker)

    @property
    def is_full(self) -> bool:
        return self._size > _HELD

    async def drained(self) -> None:
        """Wait until the pending pieces were taken."""
        self._filler = self._loop.create_future()
        await self._filler

    def end(self) -> None:
        """Close the outlet; pending pieces can still be taken."""
        self._ended = True
        _wake(self._taker)

    def stop(self) -> None:
        """Close the outlet, and discard pending pieces."""
        self._ready.clear()
        self._size = 0
        self.end()

    async def take(self) -> bytes:
        """Return all pending pieces; a heartbeat after a long silence; no bytes at the end."""
        if not self._ready and not self._ended:
            await self._wait()
        if not self._ready:
            return b"" if self._ended else _HEARTBEAT
        piece = b"".join(self._ready)
        self._ready.clear()
        self._size = 0
        _wake(self._filler)
        return piece

    async def _wait(self) -> None:
        self._taker = self._loop.create_future()
        timer = self._loop.call_later(self._heartbeat, _wake, self._taker)
        try:
            await self._taker
        finally:
            timer.cancel()
            self._taker = None


def _wake(waiter: asyncio.Future[bool] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(True)


async def _notice_leaving(receive: Receive, leave: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


async def _stopped(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
