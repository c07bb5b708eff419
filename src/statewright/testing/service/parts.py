"""What a `TestService` is made of: a service on a ledger, a clock that stands still, and who knows when all rests."""

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
"""What clients in the process call the service; nobody listens there."""


class ServiceParts:
    """A service, and how it is brought to rest. Its methods are for the loop of `thread`."""

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
        ledger, saver = self._places(path)
        self._ledger = WatchedLedger(ledger)
        self._tasks = TaskWatch(self.clock)
        more: dict[str, Any] = {**service, "instruments": [self._tasks, *service.get("instruments", ())]}
        self.service = WatchedService(
            _catalog(graphs, handlers, definitions, models, tools),
            ledger=self._ledger,
            saver=saver,
            clock=self.clock,
            settings=settings,
            webhooks=webhooks,
            **more,
        )
        self.rest = IdleDetector(self.service, self._ledger, self.clock, self._tasks, patience)
        self._transport: InProcess | None = None

    def _places(self, path: str | os.PathLike[str] | None) -> tuple[Ledger, WorkspaceCheckpointer]:
        if path is None:
            return InMemoryLedger(), InMemorySaver(checks_values=True)
        from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

        database = self._closing.enter_context(SqliteDatabase(path))
        return SqliteLedger(database), SqliteSaver(database)

    # -- beginning and ending

    async def open(self) -> None:
        """Begin to work."""
        await ensure_default_workspace(self._ledger, self.clock.now())
        await self.service.start_working()
        # What is at work at the end waits for the clock, which stands still: no time is given to it.
        self._stack.push_async_callback(self.service.stop, 0.0)
        await self.rest.settle()

    async def close(self) -> None:
        """Let what is under way end or be left, and stop."""
        await self._stack.aclose()

    def end(self) -> None:
        """Let go of the thread and the database."""
        self.thread.stop()
        self._closing.close()

    async def transport(self) -> InProcess:
        """Where clients send their requests; the application is made when it is first asked for."""
        if self._transport is None:
            from statewright.client.transport import library
            from statewright.server import ServerSettings, create_app

            library()
            app = create_app(self.service, settings=ServerSettings(auth="none"))
            from statewright.testing.service.in_process import InProcess  # needs the libraries that were asked for

            await self._stack.enter_async_context(app.router.lifespan_context(app))
            self._transport = InProcess(app, self.thread, self.rest.settle)
        return self._transport

    # -- looking

    async def run(self, run: Run | str) -> Run:
        """A run as it is now."""
        return await self.service.run(WORKSPACE, run if isinstance(run, str) else run.id)

    async def settled(self, run: Run | str) -> Run:
        """A run once everything has happened that can."""
        await self.rest.settle()
        return await self.run(run)

    async def waits(self, run: Run | str) -> Sequence[Wait]:
        """What a run waits for."""
        run_id = run if isinstance(run, str) else run.id
        return await aresolve(self._ledger.find(Wait, where(run_id=run_id)))

    async def pending_approval(self, run: Run | str) -> Approval:
        """The one approval that a run waits for. Raises InvalidRequest if there is none, or more than one."""
        run_id = run if isinstance(run, str) else run.id
        found: Sequence[Approval] = await aresolve(self._ledger.find(Approval, where(run_id=run_id, decision=None)))
        if len(found) != 1:
            raise InvalidRequest(
                f"Run {run_id} waits for {len(found)} approvals. Bring it to one, or decide with "
                f"`service.client.approvals`."
            )
        return found[0]

    # -- time

    async def run_to_rest(self, run: Run | str) -> Run:
        """A run once it has ended, is paused, or waits for somebody outside; time passes as far as it needs."""
        while True:
            current = await self.settled(run)
            if current.status in ENDED or current.status is RunStatus.PAUSED:
                return current
            if any(wait.kind != "timer" for wait in await self.waits(current)):
                return current
            if await self.skip() is None:
                return current

    async def skip(self) -> datetime | None:
        """Let time pass until the next thing is due, and let it happen; None if nothing is."""
        await self.rest.settle()
        instant = await self.rest.next_instant()
        if instant is not None:
            self.clock.jump_to(instant)
            await self.rest.settle()
        return instant


def _catalog(
    graphs: Mapping[str, Any],
    handlers: Handlers | Mapping[str, Any] | None,
    definitions: Sequence[Any],
    models: Any,
    tools: ToolsGiven,
) -> Catalog:
    known = handlers if isinstance(handlers, Handlers) else Handlers(handlers)
    catalog = Catalog(handlers=known, models=models, tools=tools)
    for name, graph in graphs.items():
        catalog.serve(name, graph)
    for definition in definitions:
        catalog.serve_steps(definition)
    return catalog
