"""The parts of a `TestService`: a service, its storage, its clock, and the detection of idleness."""

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
    from statewright.testing.service.in_process import InProcess

WORKSPACE: Final = DEFAULT_WORKSPACE
URL: Final = "http://127.0.0.1:8123"
"""The base URL of clients in the same process; no server listens there."""


class ServiceParts:
    """A service with its test doubles. The coroutines must run on the event loop of `thread`.

    `options` are passed to `Service`.
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
        self._closing = ExitStack()
        self._stack = AsyncExitStack()
        ledger, saver = self._open_storage(path)
        self.ledger = WatchedLedger(ledger)
        tasks = TaskWatch(self.clock)
        options = {**options, "instruments": [tasks, *options.get("instruments", ())]}
        self.service = WatchedService(catalog, ledger=self.ledger, saver=saver, clock=self.clock, **options)
        self.idle = IdleDetector(self.service, self.ledger, self.clock, tasks, patience)
        self._transport: InProcess | None = None

    def _open_storage(self, path: str | os.PathLike[str] | None) -> tuple[Ledger, WorkspaceCheckpointer]:
        if path is None:
            return InMemoryLedger(), InMemorySaver(checks_values=True)
        from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

        database = self._closing.enter_context(SqliteDatabase(path))
        return SqliteLedger(database), SqliteSaver(database)

    # -- start and end

    async def open(self) -> None:
        """Start the service."""
        await ensure_default_workspace(self.ledger, self.clock.now())
        await self.service.start_working()
        # At that time, running nodes wait for the clock, which stands still, so a grace period would not help them.
        self._stack.push_async_callback(self.service.stop, 0.0)
        await self.idle.settle()

    async def close(self) -> None:
        """Stop the service; running nodes are abandoned."""
        await self._stack.aclose()

    def release(self) -> None:
        """Stop the thread and close the database."""
        self.thread.stop()
        self._closing.close()

    async def transport(self) -> InProcess:
        """Return the transport for clients; the application is created on first use."""
        if self._transport is None:
            from statewright.client.connection import import_httpx
            from statewright.server import ServerSettings, create_app

            import_httpx()  # raises MissingLibrary, where the next import would raise a plain ImportError
            from statewright.testing.service.in_process import InProcess

            app = create_app(self.service, settings=ServerSettings(auth="none"))
            await self._stack.enter_async_context(app.router.lifespan_context(app))
            self._transport = InProcess(app, self.thread, self.idle.settle)
        return self._transport
