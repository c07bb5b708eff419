"""Slow, idle and excessive connections are closed: with real sockets, and a server on the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Response
from tests.unit.server.serving import catalog

from statewright.server.app import create_app
from statewright.server.connections import limited_protocol
from statewright.server.serve import create_server
from statewright.server.settings import ServerSettings
from statewright.service import Service

GUARD = 600
"""Seconds after which a test gives up."""
HEAD = b"POST /echo HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n"


def echo() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def answer(body: dict[str, Any] | None = None) -> Response:
        return Response(b"x" * 16_000_000)

    return app


@asynccontextmanager
async def listening(**settings: Any) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    """Start a server with these limits, and yield its port."""
    limits = ServerSettings(**settings)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            echo(),
            http=limited_protocol(limits),
            timeout_keep_alive=limits.keep_alive,  # type: ignore[arg-type]
            log_config=None,
            lifespan="off",
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        async with asyncio.timeout(GUARD):
            while not server.started:
                await asyncio.sleep(0.005)
            try:
                yield listener.getsockname()[1], server
            finally:
                server.should_exit = server.force_exit = True
                await serving


async def answer_to(port: int, *pieces: bytes) -> bytes:
    """Return the bytes that the server sends until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        received = await reader.read()
    writer.close()
    return received


@pytest.mark.parametrize(
    "pieces",
    [(), (b"P",), (b"POST /echo HTTP/1.1\r\nhost: 127",), (HEAD,), (HEAD, b'{"a"')],
    ids=["nothing", "a byte", "half a head", "no body", "half a body"],
)
def test_a_client_that_does_not_complete_its_request_is_disconnected(pieces: tuple[bytes, ...]) -> None:
    async def run() -> bytes:
        async with listening(read_timeout=0.2) as (port, _):
            return await answer_to(port, *pieces)

    assert asyncio.run(run()).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_sends_its_head_byte_by_byte_is_disconnected() -> None:
    async def run() -> bytes:
        async with listening(read_timeout=0.2) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            # Not until EOF: a byte that arrives after the server has closed would reset the connection.
            reading = asyncio.create_task(reader.read(1 << 16))
            writer.write(b"GET / HTTP/1.1\r\nx: ")
            while not reading.done():
                with suppress(ConnectionError):
                    writer.write(b"y")
                await asyncio.sleep(0.01)
            writer.close()
            return reading.result()

    assert asyncio.run(run()).startswith(b"HTTP/1.1 408 ")


def test_a_client_that_does_not_complete_its_second_request_is_disconnected() -> None:
    async def run() -> bytes:
        async with listening(read_timeout=0.2, keep_alive=3600) as (port, _):
            request = b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            return await answer_to(port, request, b"GET /not")

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"HTTP/1.1 408 " in answer


def test_an_idle_connection_is_closed_after_keep_alive() -> None:
    async def run() -> bytes:
        async with listening(read_timeout=0.05, keep_alive=0.3) as (port, _):
            return await answer_to(port, b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"408" not in answer


def test_a_client_that_does_not_read_is_disconnected() -> None:
    async def run() -> None:
        async with listening(write_timeout=0.2, keep_alive=2 * GUARD) as (port, server):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setblocking(False)
                await asyncio.get_running_loop().sock_sendall(client, HEAD + b'{"a":"bc"}')
                connections = server.server_state.connections
                while not connections:
                    await asyncio.sleep(0.01)
                # The response is not read: it fills the buffers of the system until the connection is closed.
                while connections:
                    await asyncio.sleep(0.01)

    asyncio.run(run())


def test_connections_above_the_limit_are_refused() -> None:
    async def run() -> tuple[bytes, bytes]:
        async with listening(max_connections=2) as (port, _):
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            request = b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
            for _, writer in idle:  # the server has accepted both once it has answered them
                writer.write(b"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            for reader, _ in idle:
                await reader.readuntil(b"\r\n\r\n")
            refused = await answer_to(port)
            for _, writer in idle:
                writer.close()
                await writer.wait_closed()
            while not (served := await answer_to(port, request)).startswith(b"HTTP/1.1 404 "):
                await asyncio.sleep(0.005)  # the server has not noticed yet that the others are closed
            return refused, served

    refused, _ = asyncio.run(run())
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b'"UNAVAILABLE"' in refused


def test_the_server_of_an_application_has_its_limits() -> None:
    app = create_app(Service(catalog()))
    config = create_server(app).config
    assert config.timeout_keep_alive == 75
    assert config.http.limits is app.state.context.settings  # type: ignore[union-attr]
