"""Validation of requests to start runs, and the changes that create the runs."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic_core import to_json

from statewright.async_futures import adrive, aresolve
from statewright.clock import iso
from statewright.errors import InvalidRequest, NotFound, PayloadTooLarge, RequestConflict
from statewright.futures import drive
from statewright.ids import new_checkpoint_id, new_run_id
from statewright.runs import (
    DEFAULT_QUEUE,
    Absent,
    Change,
    Condition,
    Insert,
    Queue,
    Record,
    Run,
    RunLabel,
    RunStatus,
    StoredDefinition,
    Workspace,
    where,
)
from statewright.service.catalog.catalog import PROJECT
from statewright.service.context.records import MAX_LABELS, entries_as_text, find_first, others_on_thread
from statewright.service.context.requests import StartRun
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.context.validation import validate_choice, validate_queue_name
from statewright.service.engine.completion import Ending
from statewright.service.operations.control import Cancellation
from statewright.service.operations.input_check import check_input

logger = logging.getLogger("statewright.service")
ON_BUSY: Final = ("reject", "enqueue", "interrupt", "rollback")
_MAX_KEY_LENGTH: Final = 255
_MAX_TAG_LENGTH: Final = 200
_MAX_TIMEOUT: Final = 10 * 365 * 86400
"""Seconds: ten years."""
MAX_PRIORITY: Final = 1000
"""The highest priority number; the lowest is its negative."""
_LIMIT_CACHE_SECONDS: Final = 2.0
"""How long it is cached that a workspace or a queue has limits."""
CancelRuns = Callable[[Sequence[Run], str], Awaitable[Cancellation]]
"""Returns the changes that cancel runs for a reason; see `ControlOperations.prepare_cancellation`."""


@dataclass(frozen=True, slots=True)
class Started:
    """The result of a request to start a run."""

    run: Run
    created: bool
    """False if the run had been started before with the same idempotency key."""


@dataclass(frozen=True, slots=True)
class ThreadSlot:
    """The right of a new run to use its thread, at once or after the runs that are using it."""

    run: Run
    """The run, as it will be written."""
    changes: Sequence[Change] = ()
    """Changes that free the thread, and guards that ensure that it stays free. They must be written in one transaction
    with the run, before it."""
    publish: Callable[[], object] = lambda: None
    """Publishes the changes. Call it after they were written."""


class Starter:
    """Creates the records of new runs."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._limit_cache: dict[tuple[type[Record], str], tuple[float | None, bool]] = {}
        """For each workspace and queue, the time at which its record was read, and whether it limits runs."""

    async def prepare(self, workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, list[Change]]:
        """Validate a request. Return a new run, and the changes that create it.

        Raises InvalidRequest, NotFound, PayloadTooLarge, and SpendingLimitReached if the run would start today in a
        workspace that has reached a daily limit.
        """
        check_start(request, self._context.settings)
        definition = await adrive(self._context.versions.find_requested(workspace_id, request))
        run, changes = self.build_run(workspace_id, request, definition, now)
        await self._context.spending.check_start(workspace_id, request.after)
        return run, changes

    def build_run(
        self, workspace_id: str, request: StartRun, definition: StoredDefinition, now: datetime
    ) -> tuple[Run, list[Change]]:
        """Return a new run of a definition, and the changes that create it. Raises InvalidRequest for its input."""
        check_input(definition, self._context.catalog.find(definition), request.input, request.source)
        run_id = request.run_id or self.new_id()
        run = Run(
            id=run_id,
            workspace_id=workspace_id,
            graph=definition.name,
            definition_id=definition.id,
            thread_id=request.thread_id or run_id,
            due_at=max(request.after, now) if request.after is not None else now,
            input=request.input,
            settings={**request.settings, **({"notBefore": iso(request.after)} if request.after is not None else {})},
            idempotency_key=request.idempotency_key,
            on_busy=request.on_busy,
            concurrency_key=request.concurrency_key,
            concurrency_limit=request.concurrency_limit,
            sequence=request.sequence,
            queue=request.queue or self._queue_of(definition, request.tags),
            priority=request.priority,
            deadline_at=now + timedelta(seconds=request.timeout) if request.timeout is not None else None,
            source=request.source,
            parent_id=request.parent_id,
            parent_waits=request.parent_waits,
            tags=list(request.tags),
            metadata=dict(request.metadata),
            created_at=now,
            updated_at=now,
        )
        return run, [Insert(run), *_labels(run)]

    async def check_later_input(
        self, workspace_id: str, graph: str | None, definition_id: str | None, value: Any
    ) -> None:
        """Raise InvalidRequest for the input of runs to be started later, as `prepare` would if they started now.

        The graph need not exist yet. Then the input is checked when a run is started.
        """
        request = StartRun(graph=graph, definition_id=definition_id)
        try:
            definition = await adrive(self._context.versions.find_requested(workspace_id, request))
        except NotFound:
            return
        check_input(definition, self._context.catalog.find(definition), value, request.source)

    def _queue_of(self, definition: StoredDefinition, tags: Sequence[str]) -> str:
        """Return the queue of a run that names none: that of its first tag with a queue, else that of its graph."""
        queues = self._context.settings.queues_by_tag
        tag = next((tag for tag in tags if tag in queues), None)
        if tag is not None:
            return queues[tag]
        served = self._context.catalog.get(definition.name) if definition.workspace_id == PROJECT else None
        return served.queue if served is not None else DEFAULT_QUEUE

    def new_id(self) -> str:
        """Generate an id for a new run. Ids sort by the time at which they were generated."""
        return f"run_{new_checkpoint_id()}"

    async def is_limited(self, run: Run) -> bool:
        """Return whether a limit on concurrent runs or on starts holds for the workspace or the queue of a run."""
        return await self._has_limit(Workspace, run.workspace_id) or await self._has_limit(Queue, run.queue)

    async def _has_limit(self, kind: type[Workspace | Queue], name: str) -> bool:
        read_at, has_limit = self._limit_cache.get((kind, name), (None, False))
        now = self._context.clock.monotonic()
        # That there is no limit need not be up to date: `limit_guards` refuse a run if one was set.
        if read_at is None or (has_limit and now - read_at > _LIMIT_CACHE_SECONDS):
            record = await aresolve(self._context.ledger.get(kind, name))
            has_limit = record is not None and (
                record.max_running is not None or (isinstance(record, Queue) and record.starts_per_minute is not None)
            )
            self._limit_cache[kind, name] = (now, has_limit)
        return has_limit

    def limit_guards(self, run: Run) -> list[Absent]:
        """Return guards that refuse a run for whose workspace or queue a limit was set since it was read."""
        return [
            Absent(kind, [*where(id=name), Condition(column, "!=", None)])
            for kind, name, column in (
                (Workspace, run.workspace_id, "max_running"),
                (Queue, run.queue, "max_running"),
                (Queue, run.queue, "starts_per_minute"),
            )
        ]

    def forget_limits(self, run: Run) -> None:
        """Read the limits of the workspace and the queue of a run again at their next use."""
        for name in ((Workspace, run.workspace_id), (Queue, run.queue)):
            self._limit_cache.pop(name, None)

    def failure_handler_changes(self, run: Run, ending: Ending, now: datetime) -> Sequence[Change]:
        """Return the changes that start the failure handler (the graph `on_failure`) of a run, if the run has failed.

        The failure of a failure handler does not start another one.
        """
        context = self._context
        served = context.catalog.get(run.graph)
        graph = run.settings.get("onFailure") or (served.on_failure if served is not None else None)
        if ending.status is not RunStatus.FAILED or graph is None or run.source.startswith("failure:"):
            return ()
        try:
            definition = drive(context.versions.find_newest(run.workspace_id, graph))
        except NotFound:
            logger.exception("The on_failure graph of run %s, which has failed, could not be started.", run.id)
            return ()
        error = context.redact(ending.error) if context.redact is not None else ending.error
        failure = {"runId": run.id, "graph": run.graph, "input": run.input, "error": error}
        request = StartRun(graph=graph, input=failure, source=f"failure:{run.id}", metadata={"failedRun": run.id})
        return self.build_run(run.workspace_id, request, definition, now)[1]

    # -- existing runs

    async def find_by_key(self, workspace_id: str, key: str | None) -> Run | None:
        """Return the run that was started with an idempotency key; None if there is none."""
        if key is None:
            return None
        return await find_first(self._context.ledger, Run, where(workspace_id=workspace_id, idempotency_key=key))

    async def find_slot(self, run: Run, cancel_runs: CancelRuns) -> ThreadSlot | Run:
        """Return the slot of a new run on its thread, or the run on that thread that has the same idempotency key.

        If other runs use the thread, the policy `on_busy` of the new run applies. For `reject`, raises RequestConflict.
        """
        if run.thread_id == run.id:
            return ThreadSlot(run)
        others: Sequence[Run] = await aresolve(self._context.ledger.find(Run, others_on_thread(run)))
        key = run.idempotency_key
        existing = next((other for other in others if key and other.idempotency_key == key), None)
        if existing is not None:
            return existing
        if run.on_busy == "enqueue":
            return ThreadSlot(run)
        guard = Absent(Run, others_on_thread(run))
        if not others:
            return ThreadSlot(run, [guard])
        if run.on_busy == "reject":
            raise RequestConflict(
                f"Thread {run.thread_id!r} is busy with run {others[0].id}, which is {others[0].status}. Wait for its "
                f"end, or set onBusy to enqueue, interrupt or rollback.",
                details={"runs": [other.id for other in others]},
            )
        cancellation = await cancel_runs(others, f"run on_busy={run.on_busy!r} took its thread")
        # A run that is cancelled before it has begun has not yet taken over its thread from the runs that were
        # cancelled for it. The new run takes over from these runs in its place.
        inherited = [run_id for other in others for run_id in other.settings.get("takesOver", ())]
        rolls_back = any(other.settings.get("rollsBack") for other in others if not other.begun)
        takeover = {
            "takesOver": [*(other.id for other in others), *inherited],
            "rollsBack": rolls_back or run.on_busy == "rollback",
        }
        successor = replace(run, settings={**run.settings, **takeover})
        return ThreadSlot(successor, [*cancellation.changes, guard], cancellation.publish)


def claimed(run: Run, worker_id: str) -> Run:
    """Return a copy of a run that is claimed by a worker."""
    return replace(run, claim=new_run_id(), worker_id=worker_id, due_at=None)


def _labels(run: Run) -> list[Insert]:
    """Return the inserts of the labels of a run: the tags and the metadata by which filters find it."""
    pairs = [*(("", tag) for tag in run.tags), *entries_as_text(run.metadata).items()]
    return [
        Insert(RunLabel(id=f"{run.id}/{number}", run_id=run.id, name=name, value=value[:_MAX_TAG_LENGTH]))
        for number, (name, value) in enumerate(dict.fromkeys(pairs))
    ]


def size_of(value: Any) -> int:
    """Return the size of a value as JSON, in bytes. Raises InvalidRequest if the value cannot be converted to JSON."""
    try:
        return len(to_json(value))
    except ValueError as error:
        raise InvalidRequest(f"The value cannot be represented as JSON: {error}.") from None


def check_start(request: StartRun, settings: ServiceSettings) -> None:
    """Raise InvalidRequest or PayloadTooLarge for a request that is invalid whatever its graph is."""
    validate_choice(request.on_busy, "onBusy", ON_BUSY)
    if request.fork is not None and (request.thread_id is not None or request.input):
        raise InvalidRequest("A run that goes on from a checkpoint has no input, and a new thread. Leave both out.")
    names = {
        "idempotencyKey": request.idempotency_key,
        "threadId": request.thread_id,
        "concurrencyKey": request.concurrency_key,
        "sequence": request.sequence,
    }
    for name, value in names.items():
        if value is not None and not 1 <= len(value) <= _MAX_KEY_LENGTH:
            raise InvalidRequest(f"{name} must have 1 to {_MAX_KEY_LENGTH} characters; it has {len(value)}.")
    if len(request.tags) > MAX_LABELS:
        raise InvalidRequest(f"The run has {len(request.tags)} tags; at most {MAX_LABELS} are allowed.")
    for tag in request.tags:
        if not 1 <= len(tag) <= _MAX_TAG_LENGTH:
            raise InvalidRequest(f"A tag must have 1 to {_MAX_TAG_LENGTH} characters; one has {len(tag)}.")
    for name in request.metadata:
        if len(name) > _MAX_TAG_LENGTH:
            raise InvalidRequest(f"A name in metadata may have {_MAX_TAG_LENGTH} characters; one has {len(name)}.")
    if request.after is not None and request.after.tzinfo is None:
        raise InvalidRequest(f"after={request.after} has no time zone. Add one, such as +00:00.")
    if request.timeout is not None and not 0 < request.timeout <= _MAX_TIMEOUT:
        raise InvalidRequest(f"The timeout must be above 0 and at most ten years; it is {request.timeout} seconds.")
    if request.queue is not None:
        validate_queue_name(request.queue)
    if not -MAX_PRIORITY <= request.priority <= MAX_PRIORITY:
        raise InvalidRequest(f"The priority must be from -{MAX_PRIORITY} to {MAX_PRIORITY}; it is {request.priority}.")
    if request.concurrency_limit is not None and (request.concurrency_limit < 1 or request.concurrency_key is None):
        raise InvalidRequest("A concurrencyLimit must be at least 1, and needs a concurrencyKey.")
    size = size_of(request.input)
    if size > settings.max_input:
        raise PayloadTooLarge(f"The input has {size} bytes; at most {settings.max_input} are allowed.")
    if size_of([request.metadata, request.settings]) > settings.max_payload:
        raise PayloadTooLarge(f"Metadata and settings together have more than {settings.max_payload} bytes.")
