"""HTTP requests without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from statewright.service.background.loop_thread import LoopThread
from statewright.testing.service.in_process import InProcessTransport


class App:
    """Echoes the request, streams until its reader disconnects, or fails."""

    def __init__(self) -> None:
        self.disconnected = asyncio.Event()
        self.settled = 0

    async def settle(self) -> None:
        self.settled += 1

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/fail":
            raise ValueError("it failed")
        stream = scope["path"] == "/stream"
        media = b"text/event-stream; charset=utf-8" if stream else b"text/plain"
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", media)]})
        if not stream:
            echo = f"{scope['method']} {scope['path']} {scope['query_string'].decode()} {body.decode()}"
            await send({"type": "http.response.body", "body": echo.encode(), "more_body": False})
            return
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        self.disconnected.set()


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    loop_thread = LoopThread("in-process")
    loop_thread.start()
    yield loop_thread
    loop_thread.stop()


def test_a_request_gets_its_response(thread: LoopThread) -> None:
    app = App()
    with httpx.Client(transport=InProcessTransport(app, thread, app.settle), base_url="http://h") as client:
        assert client.post("/a/b?c=d", content="body").text == "POST /a/b c=d body"
        assert app.settled == 1
        with pytest.raises(ValueError, match="it failed"):
            client.get("/fail")


def test_a_stream_arrives_in_pieces_and_can_be_abandoned(thread: LoopThread) -> None:
    app = App()
    with httpx.Client(transport=InProcessTransport(app, thread, app.settle), base_url="http://h") as client:
        with client.stream("GET", "/stream") as response:
            assert next(response.iter_bytes()) == b"first"
        assert app.settled == 0


def test_async_clients_can_use_it(thread: LoopThread) -> None:
    app = App()

    async def use() -> None:
        async with httpx.AsyncClient(
            transport=InProcessTransport(app, thread, app.settle), base_url="http://h"
        ) as client:
            assert (await client.get("/x")).text == "GET /x  "
            async with client.stream("GET", "/stream") as response:
                async for piece in response.aiter_bytes():
                    assert piece == b"first"
                    break

    asyncio.run(use())
