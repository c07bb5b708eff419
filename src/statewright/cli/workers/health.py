"""The optional endpoint of a worker for probes and metrics: `/health`, `/live`, `/ready`
and `/metrics`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statewright.observe import Metrics
    from statewright.server import ServerSettings
    from statewright.service import Service


class HealthEndpoint:
    """Answers requests about the health of a worker on a socket."""

    def __init__(self, listening: socket.socket, service: Service, settings: ServerSettings, metrics: Metrics) -> None:
        from statewright.server.app import create_health_app
        from statewright.server.serve import create_server

        app = create_health_app(service, settings=settings, metrics=metrics)
        self._listening = listening
        self._server = create_server(app, settings, handles_signals=False)
        self._shutdown = app.state.context.shutdown

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    def report_stopping(self) -> None:
        """Let `/ready` report from now on that the worker is stopping."""
        self._shutdown.begin()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answer requests while the block runs."""
        task = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        try:
            yield
        finally:
            self._server.should_exit = True
            await task
