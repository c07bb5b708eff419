"""The parts of a `TestService`: the service, its storage, its clock, and the detector that waits until it is idle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from statewright.checkpoint import InMemorySaver, WorkspaceCheckpointer
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger, Ledger
from statewright.service import Catalog
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.service.background.loop_thread import LoopThread
from statewright.testing.service.clock import ServiceClock
from statewright.testing.service.idle import IdleDetector
from statewright.testing.service.watch import TaskWatch, WatchedLedger, WatchedService

if TYPE_CHECKING:
    from statewright.testing.service.in_process import InProcessTransport

WORKSPACE: Final = DEFAULT_WORKSPACE
URL: Final = "http://127.0.0.1:8123"
"""The base URL of clients in the same process; no server listens there."""


class ServiceParts:
    """A service and the clock, ledger and instrument that observe it.

    Data is stored in the SQLite file at `path`, or in memory if `path` is None. `options` are passed to `Service`.
    Coroutines of this class must run on the event loop of `thread`.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        path: str | os.PathLike[str] | None,
        start: datetime | None,
        patience: float,
        options: Mapping[str, Any],
    ) -> None:
        self.clock = ServiceClock() if start is None else ServiceClock(start)
        self.thread = LoopThread("statewright-test-service")
        self._storage = ExitStack()
        """Closes the database."""
        self._running = AsyncExitStack()
        """Stops the application and the service."""
        ledger, saver = self._open_storage(path)
        self.ledger = WatchedLedger(ledger)
        tasks = TaskWatch(self.clock)
        options = {**options, "instruments": [tasks, *options.get("instruments", ())]}
        self.service = WatchedService(catalog, ledger=self.ledger, saver=saver, clock=self.clock, **options)
        self.idle = IdleDetector(self.service, self.ledger, self.clock, tasks, patience)
        self._transport: InProcessTransport | None = None

    def _open_storage(self, path: str | os.PathLike[str] | None) -> tuple[Ledger, WorkspaceCheckpointer]:
        if path is None:
            return InMemoryLedger(), InMemorySaver(checks_values=True)
        from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

        database = self._storage.enter_context(SqliteDatabase(path))
        return SqliteLedger(database), SqliteSaver(database)

    # -- start and end

    async def open(self) -> None:
        """Start the service."""
        await ensure_default_workspace(self.ledger, self.clock.now())
        await self.service.start_working()
        # Nodes that are still running when the service stops wait for the clock, which no longer advances, so they
        # would not end within a grace period.
        self._running.push_async_callback(self.service.stop, 0.0)
        await self.idle.settle()

    async def close(self) -> None:
        """Stop the service; running nodes are abandoned."""
        await self._running.aclose()

    def release(self) -> None:
        """Stop the thread and close the database."""
        self.thread.stop()
        self._storage.close()

    async def transport(self) -> InProcessTransport:
        """Return the transport for HTTP clients; the application is created on first use."""
        if self._transport is None:
            from statewright.client.connection import import_httpx
            from statewright.server import ServerSettings, create_app

            import_httpx()  # raises MissingLibrary if httpx is not installed; the next import would raise ImportError
            from statewright.testing.service.in_process import InProcessTransport

            app = create_app(self.service, settings=ServerSettings(auth="none"))
            await self._running.enter_async_context(app.router.lifespan_context(app))
            self._transport = InProcessTransport(app, self.thread, self.idle.settle)
        return self._transport
