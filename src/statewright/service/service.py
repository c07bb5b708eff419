"""The service, through which callers start, follow, control, answer and read runs.

`Service` is the only object that the HTTP server, the command line and tests use. It inherits the groups of operations
from its base classes. This module connects the parts, and runs the worker and the background tasks on a dedicated
thread, isolated from the event loops of callers. Every method that concerns a workspace takes its id as the first
argument, and treats records of other workspaces as missing. The errors derive from ServiceError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver, WorkspaceCheckpointer
from statewright.clock import Clock, clock_of
from statewright.errors import DuplicateRecord, InvalidConfig
from statewright.runs import Bell, InMemoryLedger, Insert, Ledger, Ring, Run
from statewright.runtime import Instrument
from statewright.service.access.spending import Limits
from statewright.service.background.background_tasks import Background, BackgroundTask
from statewright.service.background.deadlines import Deadlines
from statewright.service.background.loop_thread import LoopThread
from statewright.service.background.retention import Retention
from statewright.service.catalog.catalog import Catalog
from statewright.service.catalog.definitions import DefinitionOperations
from statewright.service.context.service_context import LogSource, Meter, ServiceContext, ServiceSettings
from statewright.service.engine.attempt import RunAttempt
from statewright.service.engine.worker import RunWorker
from statewright.service.following.hub import Hub
from statewright.service.operations.answers import AnswerOperations
from statewright.service.operations.events import EventOperations
from statewright.service.operations.reads import ReadOperations
from statewright.service.operations.signals import SignalOperations
from statewright.service.operations.step_state import StepStateOperations
from statewright.service.operations.threads import Threads
from statewright.service.operations.trace import TraceOperations
from statewright.service.schedules import Scheduler
from statewright.service.webhooks import Deliverer, WebhookSettings
from statewright.store import Store


class Service(
    ReadOperations,
    TraceOperations,
    StepStateOperations,
    AnswerOperations,
    EventOperations,
    SignalOperations,
    DefinitionOperations,
):
    """Advances durable runs, and provides the operations on them.

    `start_working` begins to advance runs, and `stop` ends this work gracefully. `async with` calls both.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        ledger: Ledger | None = None,
        saver: WorkspaceCheckpointer | None = None,
        store: Store | None = None,
        clock: Clock | None = None,
        settings: ServiceSettings | None = None,
        spending_limits: Limits | None = None,
        webhooks: WebhookSettings | None = None,
        instruments: Sequence[Instrument] = (),
        logs: LogSource | None = None,
        redact: Callable[[Any], Any] | None = None,
        meter: Meter | None = None,
        bell: Bell | None = None,
    ) -> None:
        """Create a service on the ledger and the saver of one database; both are in memory by default.

        `spending_limits` apply to every workspace, or by workspace (slug or id), with `*` for all others. `logs`
        provides the captured logs of nodes, `redact` removes secrets from events, errors and webhook messages, and
        `meter` receives measurements of the service. The time is that of the ledger's database, unless a `clock` is
        given. `bell` connects it with the other processes on the same ledger.
        """
        if (ledger is None) != (saver is None):
            raise ValueError("The ledger and the saver must belong to the same database. Give both, or neither.")
        if saver is not None and not hasattr(saver, "for_workspace"):
            raise InvalidConfig(
                f"The saver {saver!r} has no method for_workspace(), so it cannot separate the threads of workspaces. "
                f"Use a WorkspaceCheckpointer, such as SqliteSaver or InMemorySaver."
            )
        services: dict[str, Any] = {"store": store} if store is not None else {}
        if instruments:
            services["instruments"] = tuple(instruments)
        context = ServiceContext(
            ledger or InMemoryLedger(),
            saver or InMemorySaver(),
            catalog,
            clock or clock_of(ledger),
            settings or ServiceSettings(),
            spending_limits,
            services=services,
            logs=logs,
            redact=redact,
            meter=meter,
            bell=bell,
        )
        super().__init__(context)
        self.threads = Threads(context)
        self.webhooks = webhooks or WebhookSettings()
        """The settings of webhooks: delivery and allowed addresses."""
        self._background = Background(self._background_tasks(), context.clock)
        self._thread = LoopThread("statewright-service")
        self.is_running = False
        """True from `start_working` until the end of `stop`, with or without a worker."""
        self._is_stopping = False
        self._worker_future: Future[None] | None = None
        self._draining_worker: RunWorker | None = None
        """The worker for which `stop` is waiting."""
        self._must_hurry = False
        self._stop_listening: Callable[[], None] = lambda: None

    def _background_tasks(self) -> list[BackgroundTask]:
        context = self.context
        record_attempt = context.meter.record_delivery if context.meter is not None else None
        return [
            Deliverer(context.ledger, context.clock, self.webhooks, on_attempt=record_attempt),
            Scheduler(
                context.ledger,
                self.starter.prepare,
                self.prepare_cancellation,
                on_started=lambda _: self.wake_background_tasks(),
            ),
            Retention(context.ledger, context.saver),
            Deadlines(context.ledger, context.publish, self.starter.failure_handler_changes),
        ]

    # -- lifecycle

    @property
    def clock(self) -> Clock:
        return self.context.clock

    @property
    def hub(self) -> Hub:
        return self.context.hub

    async def start_working(self) -> None:
        """Store the definitions of served graphs, and begin to advance runs.

        Without the setting `works`, no runs are advanced, but schedules, webhooks and deadlines are attended to.
        """
        context = self.context
        for definition in context.catalog.to_records(context.now()):
            with suppress(DuplicateRecord):
                await aresolve(context.ledger.write([Insert(definition)]))
        await context.spending.warn_of_unknown_workspaces()
        context.wake_background = self._background.wake
        if context.bell is not None:
            self._stop_listening = context.bell.listen(self._on_ring)
        self.is_running = True
        self._thread.start()
        if context.settings.works:
            self._start_worker()
        self._thread.submit(self._background.start()).result()

    def _start_worker(self) -> None:
        context = self.context
        worker = RunWorker(
            context.ledger,
            context.clock,
            context.settings,
            lambda run: RunAttempt(run, context, self.starter),
            [definition.id for definition in context.catalog.to_records(context.now())],
            self.starter.failure_handler_changes,
        )
        context.wake_worker, context.attempt_at = worker.wake, worker.attempt_at
        self.worker = worker
        self._worker_future = self._thread.submit(worker.work())

    def _on_ring(self, kind: Ring) -> None:
        """Look at once for what another process has written. Called on the thread of the bell."""
        match kind:
            case Ring.DUE:
                if self.worker is not None:
                    self.worker.wake()
            case Ring.EVENTS:
                self.context.watch.poll_soon()
                self.context.feeds.poll_soon()

    def wake_background_tasks(self) -> None:
        """Wake the background tasks, and the worker, too. Call this when something becomes due. Thread-safe."""
        if self.worker is not None:
            self.worker.wake()
        self._background.wake()

    async def stop(self, seconds: float | None = None) -> None:
        """Stop gracefully: wait until running steps have ended, and release the runs.

        Steps that are still running after `seconds` (by default the setting `drain`) are cancelled. Steps that ignore
        the cancellation are abandoned after at most ten more seconds.
        """
        if not self.is_running or self._is_stopping:
            return
        self._is_stopping = True
        worker, self.worker = self.worker, None
        self._stop_listening()
        await asyncio.wrap_future(self._thread.submit(self._background.stop()))
        if worker is not None and self._worker_future is not None:
            self._draining_worker = worker
            await asyncio.wrap_future(self._thread.submit(worker.drain(0 if self._must_hurry else seconds)))
            with suppress(Exception):  # a failure of the worker does not prevent the shutdown
                await asyncio.wrap_future(self._worker_future)
            self._draining_worker = None
        await asyncio.to_thread(self._thread.stop)
        self.is_running = self._is_stopping = self._must_hurry = False

    def hurry(self) -> None:
        """Cancel the steps for which a `stop` in progress waits. Returns at once; call it on the loop of `stop`."""
        self._must_hurry = True
        if self._draining_worker is not None:
            self._thread.submit(self._draining_worker.drain(0))

    async def __aenter__(self) -> Self:
        await self.start_working()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def responds(self, seconds: float) -> bool:
        """Return whether the event loop that advances runs answers within `seconds`. The database is not asked.

        It does not answer while a coroutine of a node blocks it, and neither renews the leases of this process then.
        """
        return await self._thread.responds(seconds)

    async def check(self) -> None:
        """Raise StorageError if the ledger cannot be read."""
        await aresolve(self.context.ledger.find(Run, limit=1))
