"""The service: runs started, followed, stopped, answered and looked at.

HTTP, the command line and tests all come through here. Every method that concerns a workspace takes its id first, and
knows nothing of what belongs to others. Raises the errors under ServiceError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, Self, overload

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver, WorkspaceCheckpointer
from statewright.clock import Clock, SystemClock
from statewright.errors import DuplicateRecord, InvalidConfig, NotFound, RecordConflict, RequestConflict
from statewright.runs import (
    ApiKey,
    Approval,
    Change,
    InMemoryLedger,
    Insert,
    Json,
    Ledger,
    ModelCall,
    Order,
    ReceivedEvent,
    Run,
    RunEvent,
    RunStatus,
    StepLog,
    StepRun,
    StoredDefinition,
    Wait,
    where,
)
from statewright.runtime import CompiledGraph, Instrument
from statewright.service.approvals import Approvals
from statewright.service.attempt import RunAttempt, Surroundings
from statewright.service.background import Background, BackgroundTask
from statewright.service.catalog import Catalog
from statewright.service.children import ChildStarter
from statewright.service.control import Control
from statewright.service.costs import Cost, Costs, CostSummary
from statewright.service.deadlines import Deadlines
from statewright.service.definitions import Added, Definitions, GraphDescription, ServedGraph
from statewright.service.desk import ServiceContext
from statewright.service.endings import Ending
from statewright.service.events import Events
from statewright.service.following import follow, settled, until_rest
from statewright.service.hub import Hub, Told
from statewright.service.loops import LoopThread
from statewright.service.meter import Meter
from statewright.service.plain import as_json
from statewright.service.records import Page, conditions_of
from statewright.service.request import RunFilter, StartRun
from statewright.service.retention import Retention
from statewright.service.schedules import Scheduler
from statewright.service.settings import ServiceSettings
from statewright.service.signals import Signals
from statewright.service.spending import SpendingReport
from statewright.service.spending_limits import Limits
from statewright.service.starting import Room, Started, Starter, claimed
from statewright.service.step_records import LogSource
from statewright.service.threads import Threads
from statewright.service.versions import asked, asked_here
from statewright.service.webhooks import Deliverer, WebhookSettings
from statewright.service.worker import RunWorker
from statewright.store import Store

logger = logging.getLogger("statewright.service")
NEWEST: Final = Order("created_at", descending=True)
_TRIES: Final = 100
"""How often a run is tried to be started on a thread that others take or leave at the same time."""


class Service:
    """Keeps runs going. `start` begins to work, `stop` lets it end in good order; `async with` does both."""

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
        """`spending_limits` are what workspaces may spend on a day: one for each, or by their names, with `*` for all
        others. `logs` has captured what nodes log and print, `redact` takes secrets out of what is told of runs, and
        `meter` measures the service."""
        if (ledger is None) != (saver is None):
            raise ValueError("A ledger and a saver are views of one database: give both, or neither.")
        if saver is not None and not hasattr(saver, "for_workspace"):
            raise InvalidConfig(
                f"The saver {saver!r} has no for_workspace(): it cannot keep the threads of workspaces apart. Give a "
                f"WorkspaceCheckpointer, such as SqliteSaver or InMemorySaver."
            )
        self.desk = ServiceContext(
            ledger or InMemoryLedger(),
            saver or InMemorySaver(),
            catalog,
            clock or SystemClock(),
            settings or ServiceSettings(),
            spending_limits,
        )
        desk = self.desk
        self._parts: dict[str, Any] = {"store": store, "instruments": tuple(instruments)}
        self._logs, self._redact, self._meter = logs, redact, meter
        self.starter = Starter(desk.ledger, catalog, desk.clock, desk.settings, desk.spending)
        self._control = Control(desk)
        self._approvals = Approvals(desk)
        self._signals = Signals(desk, self._approvals.changes_of)
        self._events = Events(desk, self.starter)
        self._definitions = Definitions(desk, self.starter.versions)
        self._costs = Costs(desk)
        self.threads = Threads(desk, self.starter.versions)
        self._worker: RunWorker | None = None
        self._working: Any = None
        self.webhooks = webhooks or WebhookSettings()
        """Which addresses webhooks may have, and how they are told."""
        self._background = Background(self._background_parts(), desk.clock)
        self._thread: LoopThread | None = None

    def _background_parts(self) -> list[BackgroundTask]:
        desk = self.desk
        return [
            Deliverer(
                desk.ledger,
                desk.clock,
                self.webhooks,
                tried=self._meter.tried_delivery if self._meter is not None else _untold,
            ),
            Scheduler(desk.ledger, self.starter.prepare, self._control.cancellation, on_started=lambda _: self.ring()),
            Retention(desk.ledger, desk.saver),
            Deadlines(desk.ledger, desk.published, self._on_end),
        ]

    # -- working

    @property
    def clock(self) -> Clock:
        return self.desk.clock

    @property
    def hub(self) -> Hub:
        return self.desk.hub

    @property
    def worker(self) -> RunWorker | None:
        """Who advances runs in this process; None while nobody does."""
        return self._worker

    async def start_working(self) -> None:
        """Make known what is served, and begin to advance runs, on a thread of its own."""
        await self._make_known()
        desk = self.desk
        await desk.spending.warn_of_unknown()
        around = Surroundings(
            saver=desk.saver,
            ledger=desk.ledger,
            clock=desk.clock,
            app_of=self._app_of,
            hub=desk.hub,
            published=desk.published,
            durability=desk.settings.durability,
            max_steps=desk.settings.max_steps,
            max_output=desk.settings.max_output,
            parts={name: part for name, part in self._parts.items() if part},
            starter_of=lambda run, progress: ChildStarter(run, progress, desk, self.starter),
            on_end=self._on_end,
            logs=self._logs,
            redact=self._redact,
            meter=self._meter,
            spending=desk.spending,
        )
        self._worker = RunWorker(desk.ledger, desk.clock, desk.settings, lambda run: RunAttempt(run, around))
        desk.ring, desk.ring_background = self._worker.ring, self._background.ring
        desk.attempt_at = self._worker.attempt_at
        self._thread = LoopThread("statewright-service")
        self._thread.start()
        self._working = self._thread.submit(self._worker.work())
        self._thread.submit(self._start_background()).result()

    async def _start_background(self) -> None:
        self._background.start()

    def ring(self) -> None:
        """Look for work now: something is due."""
        if self._worker is not None:
            self._worker.ring()
        self._background.ring()

    async def stop(self, seconds: float | None = None) -> None:
        """Take no more work, let steps under way end within so many seconds, cancel the others, and release their runs.

        Steps that do not end when they are cancelled delay this by ten seconds at most, and are left behind then.
        """
        worker, thread = self._worker, self._thread
        if worker is None or thread is None:
            return
        self._worker = None
        await asyncio.wrap_future(thread.submit(self._background.stop()))
        await asyncio.wrap_future(thread.submit(worker.drain(seconds)))
        with suppress(Exception):
            await asyncio.wrap_future(self._working)
        await asyncio.to_thread(thread.stop)
        self._thread = None

    async def __aenter__(self) -> Self:
        await self.start_working()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _make_known(self) -> None:
        for stored in self.desk.catalog.stored(self.desk.now()):
            with suppress(DuplicateRecord):
                await aresolve(self.desk.ledger.write([Insert(stored)]))

    def _on_end(self, run: Run, ending: Ending, now: datetime) -> Sequence[Change]:
        """What starts with the end of a run: on failure, what its graph or its start names for that."""
        served = self.desk.catalog.get(run.graph)
        graph = run.settings.get("onFailure") or (served.on_failure if served is not None else None)
        if ending.status is not RunStatus.FAILED or graph is None or run.source.startswith("failure:"):
            return ()
        try:
            definition = asked_here(self.starter.versions.newest(run.workspace_id, graph))
        except NotFound:
            logger.exception("Run %s has failed, and its on_failure cannot be started.", run.id)
            return ()
        error = self._redact(ending.error) if self._redact is not None else ending.error
        told = {"runId": run.id, "graph": run.graph, "input": run.input, "error": error}
        wanted = StartRun(graph=graph, input=told, source=f"failure:{run.id}", metadata={"failedRun": run.id})
        return self.starter.made(run.workspace_id, wanted, definition, now)[1]

    async def _app_of(self, run: Run) -> CompiledGraph:
        definition = await asked(self.starter.versions.stored(run.workspace_id, run.definition_id or ""))
        return self.desk.catalog.app_of(definition)

    # -- starting and looking

    async def start(self, workspace_id: str, wanted: StartRun) -> Started:
        """Start a run, or find the one that the same idempotency key gave before.

        Raises InvalidRequest, NotFound for a graph or definition there is not, RequestConflict for a busy thread,
        PayloadTooLarge, SpendingLimitReached.
        """
        for _ in range(_TRIES):
            with suppress(RecordConflict):  # the thread is not any more as it was when it was looked at: look again
                return await self._start(workspace_id, wanted)
        raise RequestConflict(f"Other runs take thread {wanted.thread_id!r} and leave it all the time. Try again.")

    async def _start(self, workspace_id: str, wanted: StartRun) -> Started:
        known = await self._known(workspace_id, wanted)
        if known is not None:
            return Started(known, created=False)
        # All that can be wrong with it is told before anything is done for it.
        run, (_, *labels) = await self.starter.prepare(workspace_id, wanted, self.desk.now())
        room = await self.starter.make_room(run, self._control.cancellation)
        if isinstance(room, Run):
            return Started(room, created=False)
        worker = self._worker
        promise = worker.promise() if worker is not None and await self._may_begin(run) else None
        if worker is None or promise is None:
            return await self._written(workspace_id, wanted, room, labels)
        room, taken = replace(room, run=claimed(room.run, worker.id)), None
        try:
            started = await self._written(workspace_id, wanted, room, labels)
            taken = started.run if started.created else None
        finally:
            worker.take(promise, taken)
        return started

    async def _written(self, workspace_id: str, wanted: StartRun, room: Room, labels: Sequence[Change]) -> Started:
        run = room.run
        try:
            await aresolve(self.desk.ledger.write([*room.changes, Insert(run), *labels]))
        except DuplicateRecord:
            return Started(await self._known(workspace_id, wanted) or run, created=False)
        room.tell()
        if run.claim is None:
            self.ring()
        return Started(run, created=True)

    async def _known(self, workspace_id: str, wanted: StartRun) -> Run | None:
        key = wanted.idempotency_key
        return await self.starter.known(workspace_id, key) if key is not None else None

    async def _may_begin(self, run: Run) -> bool:
        """Whether a new run can be begun with at once: no limit, no other run and no time stands in its way."""
        if run.due_at is None or run.due_at > self.desk.now() or run.thread_id != run.id:
            return False
        return run.concurrency_key is None and run.queue is None and not await self.starter.is_limited(run.workspace_id)

    async def start_and_wait(self, workspace_id: str, wanted: StartRun, seconds: float) -> Started:
        """Start a run, and wait until it has ended, waits or is paused; for so many seconds at most."""
        identity = wanted.run_id or self.starter.new_id()
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.hub.listening(identity) as listener, self.desk.watch.watching(identity, listener):
            started = await self.start(workspace_id, replace(wanted, run_id=identity))
            if not started.created:
                return Started(await self.wait(workspace_id, started.run.id, seconds), created=False)
            await until_rest(self.hub, listener, seconds)
        # It may have been woken by another change, such as the first step of a run that another process advances.
        return Started(await self.wait(workspace_id, identity, until - loop.time()), created=True)

    async def run(self, workspace_id: str, run_id: str) -> Run:
        return await self.desk.records.run(workspace_id, run_id)

    async def runs(
        self, workspace_id: str, wanted: RunFilter, *, page: int = 1, page_size: int = 20, order: Order = NEWEST
    ) -> Page[Run]:
        conditions = conditions_of(workspace_id, wanted)
        return await self.desk.records.page(Run, conditions, page=page, page_size=page_size, order=order)

    async def wait(self, workspace_id: str, run_id: str, seconds: float) -> Run:
        """The run once it has ended, waits or is paused; after so many seconds as it is then."""
        return await settled(self.desk, workspace_id, run_id, seconds)

    async def steps(self, workspace_id: str, run_id: str) -> Sequence[StepRun]:
        """The steps of a run so far, in the order in which they became due."""
        run = await self.run(workspace_id, run_id)
        found = await self.desk.records.all_of_run(StepRun, run, order="superstep")
        return sorted(found, key=lambda step: (step.superstep, step.position, step.started_at is None))

    async def state(self, workspace_id: str, run_id: str) -> dict[str, Json]:
        """The state of a run: what its graph shows of it. Empty before it has begun."""
        run = await self.run(workspace_id, run_id)
        if run.output is not None:
            return run.output
        if not run.begun:
            return {}
        app = await self._app_of(run)
        saved = await aresolve(self.desk.saver_of(workspace_id).load(run.thread_id))
        return as_json(app.program.output(saved.checkpoint.values)) if saved is not None else {}

    async def model_calls(self, workspace_id: str, run_id: str) -> Sequence[ModelCall]:
        return await self.desk.records.all_of_run(ModelCall, await self.run(workspace_id, run_id))

    async def logs(self, workspace_id: str, run_id: str, *, step: str | None = None) -> Sequence[StepLog]:
        """What the steps of a run have logged and printed, in order; of the steps of one name if it is given."""
        run = await self.run(workspace_id, run_id)
        conditions = where(run_id=run.id, **({"step_name": step} if step is not None else {}))
        return await aresolve(self.desk.ledger.find(StepLog, conditions, order=Order("created_at")))

    async def events(self, workspace_id: str, run_id: str, *, after: int = 0, limit: int = 100) -> Sequence[RunEvent]:
        """The log of a run after an event, the oldest first."""
        run = await self.run(workspace_id, run_id)
        return await aresolve(self.desk.ledger.events(run.id, after=after, limit=limit))

    @overload
    def follow(
        self, workspace_id: str, run_id: str, *, after: int = 0, live: Literal[False] = False
    ) -> AsyncIterator[RunEvent]: ...
    @overload
    def follow(self, workspace_id: str, run_id: str, *, after: int = 0, live: bool) -> AsyncIterator[Told]: ...
    async def follow(
        self, workspace_id: str, run_id: str, *, after: int = 0, live: bool = False
    ) -> AsyncIterator[Told]:
        """The log of a run after an event, and what is added, until the run has ended.

        With `live` pieces of messages and what nodes write to the stream come too, as `LiveEvent`.
        """
        run = await self.run(workspace_id, run_id)
        async for event in follow(self.desk, run.id, after, live=live):
            yield event

    # -- from outside

    async def signal(
        self,
        workspace_id: str,
        run_id: str,
        type: str,  # noqa: A002  # what it is called everywhere
        payload: Json,
        *,
        key: str | None = None,
        must_wait: bool = False,
    ) -> Run:
        """See `Signals.send`."""
        return await self._signals.send(workspace_id, run_id, type, payload, key=key, must_wait=must_wait)

    async def answer(
        self, workspace_id: str, run_id: str, answers: Mapping[str, Json], *, key: ApiKey | None = None
    ) -> Run:
        """See `Signals.answer`."""
        return await self._signals.answer(workspace_id, run_id, answers, key=key)

    async def cancel(self, workspace_id: str, run_id: str, reason: str | None = None) -> Run:
        """See `Control.cancel`."""
        return await self._control.cancel(workspace_id, run_id, reason)

    async def pause(self, workspace_id: str, run_id: str) -> Run:
        """See `Control.pause`."""
        return await self._control.pause(workspace_id, run_id)

    async def resume(self, workspace_id: str, run_id: str) -> Run:
        """See `Control.resume`."""
        return await self._control.resume(workspace_id, run_id)

    async def retry(self, workspace_id: str, run_id: str) -> Run:
        """See `Control.retry`."""
        return await self._control.retry(workspace_id, run_id)

    async def cancel_all(self, workspace_id: str, wanted: RunFilter) -> list[str]:
        """See `Control.cancel_all`."""
        return await self._control.cancel_all(workspace_id, wanted)

    async def retry_all(self, workspace_id: str, wanted: RunFilter) -> list[str]:
        """See `Control.retry_all`."""
        return await self._control.retry_all(workspace_id, wanted)

    async def waits(
        self, workspace_id: str, *, run_id: str | None = None, page: int = 1, page_size: int = 20
    ) -> Page[Wait]:
        """What the runs of a workspace wait for, or one of them, the newest first."""
        conditions = where(workspace_id=workspace_id, **({"run_id": run_id} if run_id is not None else {}))
        return await self.desk.records.page(Wait, conditions, page=page, page_size=page_size)

    async def approvals(
        self,
        workspace_id: str,
        *,
        pending: bool | None = None,
        run_id: str | None = None,
        page: int = 1,
        page_size: int = 20,
    ) -> Page[Approval]:
        """See `Approvals.page`."""
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
        """See `Approvals.decide`."""
        return await self._approvals.decide(
            workspace_id, approval_id, decision, edited_content=edited_content, decided_by=decided_by, key=key
        )

    async def send_event(self, workspace_id: str, name: str, payload: Json, *, key: str | None = None) -> ReceivedEvent:
        """See `Events.send`."""
        return await self._events.send(workspace_id, name, payload, key=key)

    # -- what can be run, and what it has cost

    async def add_definition(self, workspace_id: str, body: Mapping[str, Any]) -> Added:
        """See `Definitions.add`."""
        return await self._definitions.add(workspace_id, body)

    async def definitions(self, workspace_id: str, *, page: int = 1, page_size: int = 20) -> Page[StoredDefinition]:
        """See `Definitions.page`."""
        return await self._definitions.page(workspace_id, page=page, page_size=page_size)

    async def definition(self, workspace_id: str, identity: str) -> StoredDefinition:
        """See `Definitions.get`."""
        return await self._definitions.get(workspace_id, identity)

    async def graphs(self, workspace_id: str) -> list[ServedGraph]:
        """See `Definitions.graphs`."""
        return await self._definitions.graphs(workspace_id)

    async def graph(self, workspace_id: str, name: str) -> GraphDescription:
        """See `Definitions.graph`."""
        return await self._definitions.graph(workspace_id, name)

    async def cost(self, workspace_id: str, run_id: str) -> Cost:
        """See `Costs.of_run`."""
        return await self._costs.of_run(workspace_id, run_id)

    async def cost_summary(
        self, workspace_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> CostSummary:
        """See `Costs.summary`."""
        return await self._costs.summary(workspace_id, start, end)

    async def spending(self, workspace_id: str) -> SpendingReport:
        """What a workspace has spent today, and what it may."""
        return await self.desk.spending.report(workspace_id)

    async def check(self) -> None:
        """Raise StorageError if the ledger cannot be read."""
        await aresolve(self.desk.ledger.find(Run, limit=1))


def _untold(outcome: str) -> None:
    """Nobody measures."""
