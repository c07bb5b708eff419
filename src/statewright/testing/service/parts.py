"""The parts of a `TestService`: a service, its ledger, a clock that stands still, and the detection of idleness."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver, WorkspaceCheckpointer
from statewright.errors import InvalidRequest
from statewright.runs import DEFAULT_WORKSPACE, ENDED, Approval, InMemoryLedger, Ledger, Run, RunStatus, Wait, where
from statewright.service import Catalog, ServiceSettings
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.service.background.loop_thread import LoopThread
from statewright.service.webhooks import WebhookSettings
from statewright.testing.service.clock import ServiceClock
from statewright.testing.service.idle import IdleDetector
from statewright.testing.service.watch import TaskWatch, WatchedLedger, WatchedService
from statewright.workflow.steps import Handlers, ToolsGiven

if TYPE_CHECKING:
    from statewright.testing.service.in_process import InProcess

WORKSPACE: Final = DEFAULT_WORKSPACE
URL: Final = "http://127.0.0.1:8123"
"""The base URL for clients in the process; no server listens there."""


class ServiceParts:
    """A service with its test doubles. The coroutines run on the event loop of `thread`."""

    def __init__(
        self,
        graphs: Mapping[str, Any],
        handlers: Handlers | Mapping[str, Any] | None,
        definitions: Sequence[Any],
        *,
        models: Any,
        tools: ToolsGiven,
        path: str | os.PathLike[str] | None,
        start: datetime | None,
        settings: ServiceSettings | None,
        webhooks: WebhookSettings | None,
        patience: float,
        service: Mapping[str, Any],
    ) -> None:
        self.clock = ServiceClock() if start is None else ServiceClock(start)
        self.thread = LoopThread("statewright-test-service")
        self._closing = ExitStack()
        self._stack = AsyncExitStack()
        ledger, saver = self._open_storage(path)
        self._ledger = WatchedLedger(ledger)
        self._tasks = TaskWatch(self.clock)
        options: dict[str, Any] = {**service, "instruments": [self._tasks, *service.get("instruments", ())]}
        self.service = WatchedService(
            _catalog(graphs, handlers, definitions, models, tools),
            ledger=self._ledger,
            saver=saver,
            clock=self.clock,
            settings=settings,
            webhooks=webhooks,
            **options,
        )
        self.idle = IdleDetector(self.service, self._ledger, self.clock, self._tasks, patience)
        self._transport: InProcess | None = None

    def _open_storage(self, path: str | os.PathLike[str] | None) -> tuple[Ledger, WorkspaceCheckpointer]:
        if path is None:
            return InMemoryLedger(), InMemorySaver(checks_values=True)
        from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

        database = self._closing.enter_context(SqliteDatabase(path))
        return SqliteLedger(database), SqliteSaver(database)

    # -- start and end

    async def open(self) -> None:
        """Start working."""
        await ensure_default_workspace(self._ledger, self.clock.now())
        await self.service.start_working()
        # Nodes that are still running then wait for the clock, which stands still, so they get no time to finish.
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

            import_httpx()  # reports a missing library; the next import would raise ImportError
            from statewright.testing.service.in_process import InProcess

            app = create_app(self.service, settings=ServerSettings(auth="none"))
            await self._stack.enter_async_context(app.router.lifespan_context(app))
            self._transport = InProcess(app, self.thread, self.idle.settle)
        return self._transport

    # -- views

    async def run(self, run: Run | str) -> Run:
        """Return the current record of a run."""
        return await self.service.run(WORKSPACE, id_of(run))

    async def settled(self, run: Run | str) -> Run:
        """Return a run once the service is idle."""
        await self.idle.settle()
        return await self.run(run)

    async def waits(self, run: Run | str) -> Sequence[Wait]:
        """Return the open waits of a run."""
        return await aresolve(self._ledger.find(Wait, where(run_id=id_of(run))))

    async def pending_approval(self, run: Run | str) -> Approval:
        """Return the pending approval of a run. Raises InvalidRequest if there is none, or more than one."""
        run_id = id_of(run)
        approvals: Sequence[Approval] = await aresolve(self._ledger.find(Approval, where(run_id=run_id, decision=None)))
        if len(approvals) != 1:
            raise InvalidRequest(
                f"Run {run_id} waits for {len(approvals)} approvals, not for one. Decide with "
                f"`service.client.approvals`."
            )
        return approvals[0]

    # -- time

    async def run_to_rest(self, run: Run | str) -> Run:
        """Return a run once it has ended, is paused, or waits for input; time passes as far as needed."""
        while True:
            current = await self.settled(run)
            if current.status in ENDED or current.status is RunStatus.PAUSED:
                return current
            if any(wait.kind != "timer" for wait in await self.waits(current)):
                return current
            if await self.skip() is None:
                return current

    async def skip(self) -> datetime | None:
        """Let time pass until something is due, let it happen, and return its time; None if nothing is due."""
        await self.idle.settle()
        instant = await self.idle.next_instant()
        if instant is not None:
            self.clock.jump_to(instant)
            await self.idle.settle()
        return instant


def id_of(run: Run | str) -> str:
    """Return the id of a run, passed as its record or as its id."""
    return run if isinstance(run, str) else run.id


def _catalog(
    graphs: Mapping[str, Any],
    handlers: Handlers | Mapping[str, Any] | None,
    definitions: Sequence[Any],
    models: Any,
    tools: ToolsGiven,
) -> Catalog:
    catalog = Catalog(
        handlers=handlers if isinstance(handlers, Handlers) else Handlers(handlers), models=models, tools=tools
    )
    for name, graph in graphs.items():
        catalog.serve(name, graph)
    for definition in definitions:
        catalog.serve_steps(definition)
    return catalog
