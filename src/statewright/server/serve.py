"""Serving an application with uvicorn, and shutting it down gracefully.

On SIGTERM or SIGINT, the server stops accepting connections, ends streams and long waits so that clients reconnect
elsewhere, completes the requests in progress, and drains the service. A second SIGINT aborts the remaining requests.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import uvicorn

from statewright.server.connections import limited_protocol
from statewright.server.context.server_context import ServerContext
from statewright.server.settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI


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

    Unless it handles signals, it runs until its `should_exit` is set.
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
        timeout_keep_alive=settings.keep_alive,  # pyright: ignore[reportArgumentType]  # passed to call_later
        timeout_graceful_shutdown=max(1, round(settings.drain_timeout)),
    )
    return _Server(config, context, handles_signals=handles_signals)


def serve(app: FastAPI, *, settings: ServerSettings | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then return, so that the caller can close the service's resources.

    Raises SystemExit if the port is not available.
    """
    with ignore_repeated_signals():
        create_server(app, settings).run()


def _do_nothing(*_: object) -> None:
    """Ignore a signal. Unlike SIG_IGN, a handler is not inherited by child processes."""


@contextmanager
def ignore_repeated_signals() -> Generator[None]:
    """Ignore the signals that uvicorn raises again after its shutdown. They would end the process before its clean-up.

    While uvicorn runs, it handles SIGTERM and SIGINT. Then it restores the previous handlers and raises the signals
    that it has received again.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set signal handlers
        yield
        return
    previous = {number: signal.signal(number, _do_nothing) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
