"""The service: callers start, follow, control, answer and read runs through it.

`Service` is the one object that the HTTP server, the command line and tests use. It connects the parts: each group of
its methods is implemented by a class of `service/operations`, and `background/worker_host` runs the worker. Every
method that concerns a workspace takes its id first, and treats the records of other workspaces as not existing. The
errors are those under ServiceError.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, Self, overload

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver, WorkspaceCheckpointer
from statewright.clock import Clock, SystemClock
from statewright.errors import DuplicateRecord, InvalidConfig
from statewright.runs import (
    ApiKey,
    Approval,
    InMemoryLedger,
    Insert,
    Json,
    Ledger,
    ModelCall,
    Order,
    ReceivedEvent,
    Run,
    RunEvent,
    StepLog,
    StepRun,
    StoredDefinition,
    Wait,
)
from statewright.runtime import Instrument
from statewright.service.access.spending import Limits, SpendingReport
from statewright.service.background.background_tasks import Background, BackgroundTask
from statewright.service.background.deadlines import Deadlines
from statewright.service.background.retention import Retention
from statewright.service.background.worker_host import WorkerHost
from statewright.service.catalog.catalog import Catalog
from statewright.service.catalog.definitions import Added, Definitions, GraphDescription, ServedGraph
from statewright.service.context.records import Page
from statewright.service.context.requests import RunFilter, StartRun
from statewright.service.context.service_context import LogSource, Meter, ServiceContext
from statewright.service.context.settings import ServiceSettings
from statewright.service.engine.attempt import RunAttempt, RunHooks
from statewright.service.engine.children import ChildStarter
from statewright.service.engine.worker import RunWorker
from statewright.service.following.hub import FollowedEvent, Hub
from statewright.service.operations.approvals import Approvals
from statewright.service.operations.control import Control
from statewright.service.operations.costs import Cost, Costs, CostSummary
from statewright.service.operations.events import Events
from statewright.service.operations.launch import Launcher
from statewright.service.operations.run_reads import NEWEST, RunReads
from statewright.service.operations.signals import Signals
from statewright.service.operations.starting import Started, Starter
from statewright.service.operations.threads import Threads
from statewright.service.schedules import Scheduler
from statewright.service.webhooks import Deliverer, WebhookSettings
from statewright.store import Store


class Service:
    """Advances runs durably, and serves requests about them.

    `start_working` begins to advance runs, `stop` ends gracefully; `async with` does both.
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
    ) -> None:
        """Create a service on a ledger and a saver of one database; both are in memory by default.

        `spending_limits` apply to each workspace, or by workspace name with `*` for all others. `logs` provides the
        captured logs of nodes, `redact` removes secrets from what is reported about runs, `meter` measures the service.
        """
        if (ledger is None) != (saver is None):
            raise ValueError("A ledger and a saver are views of one database: give both, or neither.")
        if saver is not None and not hasattr(saver, "for_workspace"):
            raise InvalidConfig(
                f"The saver {saver!r} has no for_workspace(), so it cannot separate the threads of workspaces. Use a "
                f"WorkspaceCheckpointer, such as SqliteSaver or InMemorySaver."
            )
        services: dict[str, Any] = {"store": store} if store is not None else {}
        if instruments:
            services["instruments"] = tuple(instruments)
        self.context = context = ServiceContext(
            ledger or InMemoryLedger(),
            saver or InMemorySaver(),
            catalog,
            clock or SystemClock(),
            settings or ServiceSettings(),
            spending_limits,
            services=services,
            logs=logs,
            redact=redact,
            meter=meter,
        )
        self.starter = Starter(context)
        self._control = Control(context)
        self._launcher = Launcher(context, self.starter, self._control, worker=lambda: self.worker, ring=self.ring)
        self._reads = RunReads(context)
        self._approvals = Approvals(context)
        self._signals = Signals(context, self._approvals.changes_of)
        self._events = Events(context, self.starter)
        self._definitions = Definitions(context)
        self._costs = Costs(context)
        self.threads = Threads(context)
        self.webhooks = webhooks or WebhookSettings()
        """The allowed addresses of webhooks, and how messages are delivered."""
        self._background = Background(self._background_tasks(), context.clock)
        self._host = WorkerHost(self._background)

    def _background_tasks(self) -> list[BackgroundTask]:
        context = self.context
        record_attempt = context.meter.tried_delivery if context.meter is not None else _ignore_attempt
        return [
            Deliverer(context.ledger, context.clock, self.webhooks, on_attempt=record_attempt),
            Scheduler(
                context.ledger, self.starter.prepare, self._control.cancellation, on_started=lambda _: self.ring()
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

    @property
    def worker(self) -> RunWorker | None:
        """The worker of this process; None unless the service is working."""
        return self._host.worker

    async def start_working(self) -> None:
        """Store the served definitions, and begin to advance runs on a thread of its own."""
        context = self.context
        for definition in context.catalog.stored(context.now()):
            with suppress(DuplicateRecord):
                await aresolve(context.ledger.write([Insert(definition)]))
        await context.spending.warn_of_unknown()
        hooks = RunHooks(
            load_graph=context.versions.load_graph,
            child_starter=lambda run, progress: ChildStarter(run, progress, context, self.starter),
            on_end=self.starter.failure_handler_changes,
        )
        worker = RunWorker(context.ledger, context.clock, context.settings, lambda run: RunAttempt(run, context, hooks))
        context.ring, context.ring_background = worker.ring, self._background.ring
        context.attempt_at = worker.attempt_at
        self._host.start(worker)

    def ring(self) -> None:
        """Wake the worker and the background tasks, because something is due."""
        self._host.ring()

    async def stop(self, seconds: float | None = None) -> None:
        """Stop gracefully: give running steps so many seconds to finish, cancel the others, and release their runs.

        Steps that ignore their cancellation delay this by at most ten seconds, and are then abandoned.
        """
        await self._host.stop(seconds)

    async def __aenter__(self) -> Self:
        await self.start_working()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # -- starting and reading runs

    async def start(self, workspace_id: str, request: StartRun) -> Started:
        """Start a run, or return the one that was started with the same idempotency key.

        Raises InvalidRequest, NotFound for an unknown graph or definition, RequestConflict for a busy thread,
        PayloadTooLarge, SpendingLimitReached.
        """
        return await self._launcher.start(workspace_id, request)

    async def start_and_wait(self, workspace_id: str, request: StartRun, seconds: float) -> Started:
        """Start a run, and wait until it has ended, waits or is paused, for so many seconds at most."""
        return await self._launcher.start_and_wait(workspace_id, request, seconds)

    async def run(self, workspace_id: str, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return await self._reads.get(workspace_id, run_id)

    async def runs(
        self, workspace_id: str, filters: RunFilter, *, page: int = 1, page_size: int = 20, order: Order = NEWEST
    ) -> Page[Run]:
        """Return a page of the runs that match all filters, the newest first by default."""
        return await self._reads.page(workspace_id, filters, page=page, page_size=page_size, order=order)

    async def wait(self, workspace_id: str, run_id: str, seconds: float) -> Run:
        """Return a run once it has ended, waits or is paused; in its current state after so many seconds."""
        return await self._reads.wait(workspace_id, run_id, seconds)

    async def steps(self, workspace_id: str, run_id: str) -> Sequence[StepRun]:
        """Return the steps of a run so far, in the order in which they became due."""
        return await self._reads.steps(workspace_id, run_id)

    async def state(self, workspace_id: str, run_id: str) -> dict[str, Json]:
        """Return the output fields of the state of a run. Empty before it has begun."""
        return await self._reads.state(workspace_id, run_id)

    async def model_calls(self, workspace_id: str, run_id: str) -> Sequence[ModelCall]:
        """Return the model calls of a run, the oldest first."""
        return await self._reads.model_calls(workspace_id, run_id)

    async def logs(self, workspace_id: str, run_id: str, *, step: str | None = None) -> Sequence[StepLog]:
        """Return the captured logs of the steps of a run in order, or of its steps of one name."""
        return await self._reads.logs(workspace_id, run_id, step=step)

    async def events(self, workspace_id: str, run_id: str, *, after: int = 0, limit: int = 100) -> Sequence[RunEvent]:
        """Return the events of a run after a sequence number, the oldest first."""
        return await self._reads.events(workspace_id, run_id, after=after, limit=limit)

    @overload
    def follow(
        self, workspace_id: str, run_id: str, *, after: int = 0, live: Literal[False] = False
    ) -> AsyncIterator[RunEvent]: ...
    @overload
    def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool) -> AsyncIterator[FollowedEvent]: ...
    def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool = False) -> AsyncIterator[Any]:
        """Yield the events of a run after a sequence number, and new ones as they are written, until it has ended.

        With `live`, events that are not stored are included as `LiveEvent`: pieces of messages, custom stream output.
        """
        return self._reads.follow(workspace_id, run_id, after=after, live=live)

    async def waits(
        self, workspace_id: str, *, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Page[Wait]:
        """Return a page of the open waits of a workspace or of one run, the newest first."""
        return await self._reads.waits(workspace_id, run_id=run_id, page=page, page_size=page_size)

    # -- signals, answers and control

    async def signal(
        self,
        workspace_id: str,
        run_id: str,
        type: str,  # noqa: A002  # its name in the API and in records
        payload: Json,
        *,
        key: str | None = None,
        must_wait: bool = False,
    ) -> Run:
        """Send a signal to a run. It is stored until the run waits for its type.

        With `must_wait`, a signal that the run does not wait for is refused: see `Signals.send` for all errors.
        """
        return await self._signals.send(workspace_id, run_id, type, payload, key=key, must_wait=must_wait)

    async def answer(
        self, workspace_id: str, run_id: str, answers: Mapping[str, Json], *, key: ApiKey | None = None
    ) -> Run:
        """Answer open questions of a run, by the ids of its waits or interrupts; all of them or none.

        `key` is that of the caller, if callers need one: deciding an approval needs the scope `approvals:decide`.
        """
        return await self._signals.answer(workspace_id, run_id, answers, key=key)

    async def cancel(self, workspace_id: str, run_id: str, reason: str | None = None) -> Run:
        """Cancel a run and its child runs. A run that has ended is returned unchanged."""
        return await self._control.cancel(workspace_id, run_id, reason)

    async def pause(self, workspace_id: str, run_id: str) -> Run:
        """Pause a run before its next superstep. Raises InvalidTransition."""
        return await self._control.pause(workspace_id, run_id)

    async def resume(self, workspace_id: str, run_id: str) -> Run:
        """Resume a paused run. Raises InvalidTransition."""
        return await self._control.resume(workspace_id, run_id)

    async def retry(self, workspace_id: str, run_id: str) -> Run:
        """Retry a failed run from the step that failed. Raises InvalidTransition, RequestConflict."""
        return await self._control.retry(workspace_id, run_id)

    async def cancel_all(self, workspace_id: str, wanted: RunFilter) -> list[str]:
        """Cancel the matching runs that have not ended, at most 1000; return their ids."""
        return await self._control.cancel_all(workspace_id, wanted)

    async def retry_all(self, workspace_id: str, wanted: RunFilter) -> list[str]:
        """Retry the matching runs that have failed, at most 1000; return their ids."""
        return await self._control.retry_all(workspace_id, wanted)

    async def approvals(
        self,
        workspace_id: str,
        *,
        pending: bool | None = None,
        run_id: str | None = None,
        page: int = 1,
        page_size: int = 20,
    ) -> Page[Approval]:
        """Return a page of the approvals of a workspace or of one run, the newest first."""
        return await self._approvals.page(workspace_id, pending=pending, run_id=run_id, page=page, page_size=page_size)

    async def approval(self, workspace_id: str, approval_id: str) -> Approval:
        return await self._approvals.get(workspace_id, approval_id)

    async def decide(
        self,
        workspace_id: str,
        approval_id: str,
        decision: str,
        *,
        edited_content: Json = None,
        decided_by: str | None = None,
        key: ApiKey | None = None,
    ) -> Approval:
        """Decide an approval, once and for all; its run is resumed. Raises Forbidden, InvalidTransition."""
        return await self._approvals.decide(
            workspace_id, approval_id, decision, edited_content=edited_content, decided_by=decided_by, key=key
        )

    async def send_event(self, workspace_id: str, name: str, payload: Json, *, key: str | None = None) -> ReceivedEvent:
        """Receive an event: start the runs of its triggers, and wake the runs that wait for it."""
        return await self._events.send(workspace_id, name, payload, key=key)

    # -- definitions, graphs and costs

    async def add_definition(self, workspace_id: str, body: Mapping[str, Any]) -> Added:
        """Store a version of a JSON workflow. Raises WorkflowError, RequestConflict for a different content."""
        return await self._definitions.add(workspace_id, body)

    async def definitions(self, workspace_id: str, *, page: int = 1, page_size: int = 20) -> Page[StoredDefinition]:
        """Return a page of the definitions that a workspace has stored, the newest first."""
        return await self._definitions.page(workspace_id, page=page, page_size=page_size)

    async def definition(self, workspace_id: str, definition_id: str) -> StoredDefinition:
        """Return a definition of the workspace or of the project. Raises NotFound."""
        return await self._definitions.get(workspace_id, definition_id)

    async def graphs(self, workspace_id: str) -> list[ServedGraph]:
        """Return the graphs that can be run by name, sorted by name."""
        return await self._definitions.graphs(workspace_id)

    async def graph(self, workspace_id: str, name: str) -> GraphDescription:
        """Return the drawing and the schemas of a graph. Raises NotFound."""
        return await self._definitions.graph(workspace_id, name)

    async def cost(self, workspace_id: str, run_id: str) -> Cost:
        """Return the cost of the model calls of a run. Raises NotFound."""
        return await self._costs.of_run(workspace_id, run_id)

    async def cost_summary(
        self, workspace_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> CostSummary:
        """Return the cost of the model calls of a workspace from one instant until before another."""
        return await self._costs.summary(workspace_id, start, end)

    async def spending(self, workspace_id: str) -> SpendingReport:
        """Return the spending of a workspace today, and its limits."""
        return await self.context.spending.report(workspace_id)

    async def check(self) -> None:
        """Raise StorageError if the ledger cannot be read."""
        await aresolve(self.context.ledger.find(Run, limit=1))


def _ignore_attempt(outcome: str) -> None:
    """Ignore the outcome of an attempt to deliver a message, because the service has no meter."""
