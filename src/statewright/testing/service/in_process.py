"""An httpx transport to an ASGI application in the same process, including streamed responses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx

from statewright.service.background.loop_thread import LoopThread

App = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application."""
Settle = Callable[[], Awaitable[None]]
"""Waits until the service is idle."""


class Exchange:
    """A request to an application, and its response, whose body can be read while the application sends it."""

    def __init__(self, app: App, request: httpx.Request, body: bytes) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._head: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._disconnected = asyncio.Event()
        self._body: bytes | None = body
        self._task = asyncio.ensure_future(self._serve(app, _scope(request)))

    async def _serve(self, app: App, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if not self._head.done():
                self._head.set_exception(error)
        finally:
            self._chunks.put_nowait(b"")

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._head.set_result(message)
        elif message.get("body"):
            self._chunks.put_nowait(message["body"])

    async def head(self) -> dict[str, Any]:
        """Wait for the ASGI message with the status and the headers, and return it."""
        return await self._head

    async def next_chunk(self) -> bytes:
        """Return the next chunk of the body; b"" at its end."""
        chunk = await self._chunks.get()
        if not chunk:
            self._chunks.put_nowait(b"")  # so that further calls return b"" too
        return chunk

    async def aclose(self) -> None:
        """Tell the application that the client has disconnected, and cancel it."""
        self._disconnected.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def _scope(request: httpx.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }


class InProcessTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Calls an application on its own event loop; after each request, it waits until the service is idle."""

    def __init__(self, app: App, thread: LoopThread, settle: Settle) -> None:
        self._app = app
        self._thread = thread
        self._settle = settle

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._thread.submit(self._respond(request, request.read())).result()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.wrap_future(self._thread.submit(self._respond(request, await request.aread())))

    async def _respond(self, request: httpx.Request, body: bytes) -> httpx.Response:
        exchange = Exchange(self._app, request, body)
        head = await exchange.head()
        headers = list(head["headers"])
        # An event stream is read while the service works, so its reader must not wait until the service is idle.
        if (b"content-type", b"text/event-stream; charset=utf-8") not in headers:
            await self._settle()
        return httpx.Response(head["status"], headers=headers, stream=_Chunks(exchange, self._thread))


class _Chunks(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of a response, for clients with blocking or async methods."""

    def __init__(self, exchange: Exchange, thread: LoopThread) -> None:
        self._exchange = exchange
        self._thread = thread

    def __iter__(self) -> Iterator[bytes]:
        while chunk := self._thread.submit(self._exchange.next_chunk()).result():
            yield chunk

    def close(self) -> None:
        self._thread.submit(self._exchange.aclose()).result()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await asyncio.wrap_future(self._thread.submit(self._exchange.next_chunk())):
            yield chunk

    async def aclose(self) -> None:
        await asyncio.wrap_future(self._thread.submit(self._exchange.aclose()))
