"""Serving an application with uvicorn until a signal stops it, and the graceful shutdown.

On SIGTERM or SIGINT: no new connections are accepted, streams and long waits end so that clients reconnect elsewhere,
requests in progress are answered, and the service is drained. A second SIGINT does not wait for requests."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from statewright.server.connections import protocol_for
from statewright.server.context.server_context import ServerContext
from statewright.server.settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI


class _Server(uvicorn.Server):
    """A server that ends streams and long waits before it waits for requests."""

    def __init__(self, config: uvicorn.Config, context: ServerContext) -> None:
        super().__init__(config)
        self._context = context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.closing.begin()
        await super().shutdown(sockets)


def server_of(app: FastAPI, settings: ServerSettings | None = None) -> uvicorn.Server:
    """Return a server for the application that is not running yet: call `server.run()`, or await `server.serve()`."""
    context: ServerContext = app.state.context
    settings = settings or context.settings
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        http=protocol_for(settings),
        timeout_keep_alive=settings.keep_alive,  # pyright: ignore[reportArgumentType]  # passed to call_later
        timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
    )
    return _Server(config, context)


def serve(app: FastAPI, *, settings: ServerSettings | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then return, so that the caller can close the resources of the service.

    Raises SystemExit if the port is not available.
    """
    with ignore_repeated_signals():
        server_of(app, settings).run()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the server has already shut down."""


@contextmanager
def ignore_repeated_signals() -> Generator[None]:
    """Ignore the signals that the server raises again after its shutdown: they would end the process before cleanup.

    uvicorn handles SIGTERM and SIGINT itself, and raises them again for the handlers that were set before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _ignore) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
