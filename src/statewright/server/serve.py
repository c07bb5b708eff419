"""Serving an application with uvicorn, and shutting it down gracefully.

On SIGTERM or SIGINT, the server stops accepting connections, ends streams and long waits so that clients reconnect
elsewhere, completes the requests in progress, and ends the lifespan of the application, which drains the service. A
second SIGINT aborts the remaining requests.
"""

from __future__ import annotations

import math
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.server import HANDLED_SIGNALS

from statewright.server.connections import limited_protocol
from statewright.server.context.server_context import ServerContext
from statewright.server.settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

STARTUP_FAILURE: Final = 3
"""The exit code if the application cannot start, which is uvicorn's."""


class _Server(uvicorn.Server):
    """A server that ends streams and long waits before it waits for open requests to complete."""

    def __init__(self, config: uvicorn.Config, context: ServerContext, *, handles_signals: bool) -> None:
        super().__init__(config)
        self._context = context
        self._handles_signals = handles_signals

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        with super().capture_signals() if self._handles_signals else nullcontext():
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.shutdown.begin()
        await super().shutdown(sockets)


def create_server(
    app: FastAPI, settings: ServerSettings | None = None, *, handles_signals: bool = True
) -> uvicorn.Server:
    """Create a server for the application. Start it with `server.run()`, or `await server.serve()`.

    With `handles_signals=False`, stop it with `server.should_exit = True`.
    """
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
        http=limited_protocol(settings),
        timeout_keep_alive=settings.keep_alive,  # pyright: ignore[reportArgumentType]  # only passed to call_later
        # Whole seconds, and at least one, so that responses that are being sent are completed.
        timeout_graceful_shutdown=max(1, math.ceil(settings.drain_timeout)),
    )
    return _Server(config, context, handles_signals=handles_signals)


def serve(app: FastAPI, *, settings: ServerSettings | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then return, so that the caller can close the service's resources.

    Raises SystemExit if the application cannot start or the port is not available.
    """
    server = create_server(app, settings)
    with exit_on_signals(server):
        server.run()
    if not server.started:  # some versions of uvicorn return, others have raised SystemExit
        raise SystemExit(STARTUP_FAILURE)


@contextmanager
def exit_on_signals(server: uvicorn.Server) -> Generator[None]:
    """Let a server exit on SIGTERM and SIGINT also before and after its event loop runs.

    While the loop runs, uvicorn handles these signals itself. On return it restores the previous handlers, and then
    raises the captured signals again: by default they would kill the process before the caller has cleaned up.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
        yield
        return

    def exit_server(*_: object) -> None:  # a handler, unlike SIG_IGN, is not inherited by programs that are started
        server.should_exit = True

    previous = {number: signal.signal(number, exit_server) for number in HANDLED_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
