"""Routes that start, list, cancel, pause, resume, retry and signal runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Final, Literal, cast

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field, field_validator, model_validator
from pydantic.alias_generators import to_snake

from statewright.api.runs import LONGEST_WAIT, OnBusy, StatusName
from statewright.async_futures import aresolve
from statewright.runs import Order, Run, RunStatus, Worker
from statewright.server.context.auth import Caller
from statewright.server.http.body import Body, IdempotencyKey, Instant, JsonMap, Name, Tag, WorkflowBody
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import (
    METADATA,
    IdempotencyKeyHeader,
    PageNumber,
    PageSize,
    Paging,
    RunQuery,
    resolve_idempotency_key,
)
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import RUN, RUN_COUNTS, RUN_IDS, RUN_WITH_STEPS, STARTED_RUN, STEP
from statewright.server.streaming.event_stream import EventStream
from statewright.server.streaming.run_list_stream import encode_in_list, follow_runs, parse_position
from statewright.service import Fork, RunFilter, Started, StartRun, StateEdit
from statewright.service.access import WORKERS_READ
from statewright.service.operations.reads import MAX_PERIODS
from statewright.service.operations.starting import MAX_PRIORITY

router = APIRouter(prefix="/api/v1/workflow-runs", route_class=StrictRoute, tags=["workflow-runs"])
Wait = Annotated[
    float | None, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait until the run ends, waits or is paused.")
]
Sort = Literal["createdAt", "-createdAt", "updatedAt", "-updatedAt", "startedAt", "-startedAt", "status", "-status"]
_EXISTS = "The run already exists: it was started with the same idempotency key."
MAX_TIMEOUT: Final = 10 * 366 * 86_400
"""The maximum `timeout` of a run, in seconds: ten years."""
ThreadName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^/\x00-\x1f\x7f]+$")]
"""A thread id that can be one segment of a URL path."""
QueueName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9_.-]+$")]


# -- bodies


class RunSettings(Body):
    """Execution settings of a run."""

    recursion_limit: int | None = Field(default=None, ge=1, le=1_000_000)
    max_concurrency: int | None = Field(default=None, ge=1, le=10_000)
    durability: Literal["sync", "async"] | None = None
    context: JsonMap | None = None


class StateEditBody(Body):
    """A change of the state, as if a node had returned the values."""

    values: JsonMap
    overwrite: list[Name] = Field(default_factory=list[str], max_length=1000)
    """The fields of `values` that replace the values in the state, instead of being passed to their reducers."""
    as_node: Name | None = None


class RunForkBody(Body):
    """A checkpoint from which a run goes on, on a thread of its own. Needs `threads:write`, and as other changes of
    threads `approvals:decide` if runs of the thread have requested approvals."""

    thread_id: ThreadName
    checkpoint_id: Name
    edit: StateEditBody | None = None
    """A change of the state before the run goes on."""

    def to_fork(self) -> Fork:
        edit = self.edit
        return Fork(
            thread_id=self.thread_id,
            checkpoint_id=self.checkpoint_id,
            edit=StateEdit(values=edit.values, overwrite=edit.overwrite, as_node=edit.as_node) if edit else None,
        )


class StartRunBody(WorkflowBody):
    """A run to start: of a stored definition, or of a served graph."""

    input: Any = None
    """Stored unchanged. Null is the same as an empty object."""
    fork: RunForkBody | None = None
    """The run goes on from a checkpoint of another thread, instead of beginning with an input."""
    thread_id: ThreadName | None = None
    """The thread to run on; a new one by default."""
    idempotency_key: IdempotencyKey | None = None
    """A second request with the same key returns the existing run, with status 200."""
    on_busy: OnBusy = "reject"
    """The policy if another run is using the thread."""
    after: Instant | None = None
    """The earliest time at which the run begins."""
    timeout: float | None = Field(default=None, gt=0, le=MAX_TIMEOUT)
    """Seconds after its creation at which the run fails if it has not ended."""
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    metadata: JsonMap = Field(default_factory=dict, max_length=50)
    concurrency_key: Name | None = None
    concurrency_limit: int | None = Field(default=None, ge=1, le=100_000)
    """The maximum number of concurrent runs with the same concurrency key."""
    queue: QueueName | None = None
    """The queue from which workers claim the run; by default that of its tags or of its graph."""
    priority: int = Field(default=0, ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    """Of the due runs of a queue, those with the lowest number begin first."""
    settings: RunSettings = RunSettings()

    @model_validator(mode="after")
    def _check_concurrency(self) -> StartRunBody:
        if self.concurrency_limit is not None and self.concurrency_key is None:
            raise ValueError("concurrencyLimit needs a concurrencyKey")
        return self

    def to_request(self) -> StartRun:
        """Convert the body to a request to the service."""
        converted = ("settings", "input", "fork")
        values = {name: getattr(self, name) for name in StartRunBody.model_fields if name not in converted}
        settings = self.settings.model_dump(by_alias=True, exclude_none=True)
        fork = self.fork.to_fork() if self.fork is not None else None
        return StartRun(**values, settings=settings, input={} if self.input is None else self.input, fork=fork)


class FilterBody(Body):
    """A filter for runs; all conditions must match, and at least one is required."""

    status: list[StatusName] = Field(default_factory=list[StatusName], max_length=7)
    graph: Name | None = None
    definition_id: Name | None = None
    thread_id: Name | None = None
    idempotency_key: Name | None = None
    parent_id: Name | None = None
    queue: QueueName | None = None
    dead: bool = False
    """True for only the runs that were set aside, because worker after worker was lost while it advanced them."""
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    """Tags, all of which a run must have."""
    any_tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    """Tags, at least one of which a run must have."""
    text: Annotated[str, Field(max_length=200)] | None = None
    """A text in the id, thread, graph or idempotency key of a run, in a tag or in a value of its metadata."""
    metadata: dict[str, str] = Field(default_factory=dict[str, str], max_length=50)
    created_from: Instant | None = None
    created_to: Instant | None = None

    @field_validator("status", mode="before")
    @classmethod
    def _lowercase(cls, value: Any) -> Any:
        if not isinstance(value, list):
            return value  # rejected by the type of the field
        return [name.lower() if isinstance(name, str) else name for name in cast("list[Any]", value)]

    @model_validator(mode="after")
    def _check_not_empty(self) -> FilterBody:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("give at least one condition: an empty filter would match all runs")
        return self

    def to_filter(self) -> RunFilter:
        """Convert the body to a filter of the service."""
        values = {name: getattr(self, name) for name in FilterBody.model_fields if name != "status"}
        return RunFilter(**values, status=[RunStatus(name) for name in self.status])


class ResumeBody(Body):
    """Input for a waiting run: a signal, or answers to its questions. A paused run takes none."""

    signal_type: Name | None = None
    payload: JsonMap | None = None
    """Becomes part of the state; names that begin with two underscores are rejected."""
    answers: JsonMap | None = Field(default=None, min_length=1)
    """Answers by interrupt id, as listed by `GET /interrupts`."""
    signal_id: IdempotencyKey | None = None
    """An idempotency key: a second signal with the same id is ignored."""

    @model_validator(mode="after")
    def _check_combination(self) -> ResumeBody:
        if self.answers is not None and self.signal_type is not None:
            raise ValueError("give either signalType or answers")
        if self.signal_type is None and (self.payload is not None or self.signal_id is not None):
            raise ValueError("payload and signalId need a signalType")
        return self


class SignalBody(Body):
    """A signal to a run, stored until a step waits for it."""

    signal_type: Name
    payload: JsonMap = Field(default_factory=dict)
    signal_id: IdempotencyKey | None = None


class CancelBody(Body):
    """The reason for a cancellation."""

    reason: Annotated[str, Field(max_length=1000)] | None = None


# -- routes


@router.post(
    "",
    **describe(
        "Start a run.", STARTED_RUN, scope="runs:write", status=201, other_statuses={200: _EXISTS}, errors=(404, 409)
    ),
)
async def start_run(
    caller: CurrentCaller,
    body: StartRunBody,
    wait: Wait = None,
    live: Annotated[
        bool, Query(description="Keep what the stream of the run has with `live=true` until it is read, for 10 s.")
    ] = False,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """Starts a run of a stored definition or of a served graph. With `wait`, the response is delayed until the run has
    ended, waits for input or is paused, but at most that many seconds. With `live`, models stream their messages from
    the beginning, and the first reader of the stream misses none of them."""
    request = replace(
        body.to_request(),
        idempotency_key=resolve_idempotency_key(idempotency_key, body.idempotency_key, "idempotencyKey"),
    )
    await caller.context.start_limits.check(caller.workspace_id, caller.now)
    if request.fork is not None:
        await caller.service.check_fork(caller.workspace_id, request, request.fork, caller.key)
    if live:
        request = replace(request, run_id=caller.service.starter.new_id())
        caller.service.context.hub.expect_listener(str(request.run_id))
    if wait:
        started = await _start_and_wait(caller, request, wait)
    else:
        started = await caller.service.start(caller.workspace_id, request)
    content = {**RUN.encode(started.run), "created": started.created}
    return success_response(content, status=201 if started.created else 200)


async def _start_and_wait(caller: Caller, request: StartRun, seconds: float) -> Started:
    """Start a run and wait until it is idle. If the shutdown begins first, return the run in its current state."""
    service, workspace = caller.service, caller.workspace_id
    # The id is generated here, so that the run can be found if the wait is interrupted.
    request = replace(request, run_id=request.run_id or service.starter.new_id())
    started = await caller.context.shutdown.race(service.start_and_wait(workspace, request, seconds))
    if started is not None:
        return started
    if request.idempotency_key is not None:  # the key may belong to an earlier run, which `start` returns
        return await service.start(workspace, request)
    return Started(await service.run(workspace, str(request.run_id)), created=True)


Brief = Annotated[bool, Query(description="Leave out inputs and outputs, which may be large: both are null.")]
Beginning = Annotated[Instant, Query(alias="from", description="The beginning of the first period.")]
End = Annotated[Instant, Query(alias="to", description="The end of the last period, exclusive.")]
Periods = Annotated[int, Query(ge=1, le=MAX_PERIODS, description="The number of periods, which are equally long.")]


@router.get("", **describe("List runs, newest first.", RUN, scope="runs:read", is_paged=True, parameters=METADATA))
async def list_runs(
    caller: CurrentCaller,
    run_filter: RunQuery,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    sort: Annotated[
        Sort, Query(description="The field to sort by; a leading minus sorts in descending order.")
    ] = "-createdAt",
    brief: Brief = False,
) -> Response:
    """Returns the runs that match all filters; `metadata.<name>=<value>` matches an entry of their metadata. `activity`
    says in a sentence what each of them is doing."""
    order = Order(to_snake(sort.lstrip("-")), sort.startswith("-"))
    runs = await caller.service.runs(caller.workspace_id, run_filter, page=page, page_size=page_size, order=order)
    activities = await caller.service.activities(runs.items)
    items = [encode_in_list(run, activities[run.id], is_brief=brief) for run in runs.items]
    return Paging(page, page_size).encoded_response(items, runs.total)


@router.get(
    "/histogram",
    **describe("Count runs over time.", RUN_COUNTS, scope="runs:read", is_list=True, parameters=METADATA),
)
async def count_runs(
    caller: CurrentCaller, run_filter: RunQuery, begin: Beginning, end: End, periods: Periods = 96
) -> Response:
    """Divides a time into equal periods, and returns for each the number of runs that were created in it and match all
    filters, by status. Statuses without runs are left out."""
    counts = await caller.service.count_over_time(caller.workspace_id, run_filter, begin, end, periods)
    length = (end - begin) / periods
    content = [
        {"start": begin + number * length, "total": sum(by_status.values()), "byStatus": by_status}
        for number, by_status in enumerate(counts)
    ]
    return success_response(content)


_STREAMED = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["run", "position", "reset"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "description": "The position in the stream, to continue after a break."},
    },
}
_LIST_STREAM = {
    "content": {"text/event-stream": {"schema": _STREAMED}},
    "description": "Server-sent events: `run` has a run as in the list, without input and output; `position` has only "
    "the id at which the stream begins; `reset` says that too much was missed, so that the list must be read again.",
}


@router.get(
    "/stream",
    **describe("Stream the changes of all runs.", scope="runs:read", raw_responses={200: _LIST_STREAM}),
)
async def stream_runs(
    caller: CurrentCaller,
    last_event_id: Annotated[
        str | None, Query(alias="lastEventId", description="Same as the header Last-Event-ID, which takes precedence.")
    ] = None,
    header: Annotated[
        str | None,
        Header(alias="last-event-id", description="The last id received; changes since then are sent first."),
    ] = None,
) -> Response:
    """Sends the newest state of each run of the workspace that has changed, within a second: for lists that are shown
    live. A run is sent at least once after its last change; `version` tells whether it is news. The filters of the list
    do not apply, because a run may cease to match. The stream of a single run has all its events."""
    position = header if header is not None else last_event_id
    since = parse_position(position, caller.now)
    return EventStream(follow_runs(caller, since), caller)


@router.post("/cancel", **describe("Cancel all runs that match a filter.", RUN_IDS, scope="runs:write"))
async def cancel_runs(caller: CurrentCaller, body: FilterBody) -> Response:
    return success_response({"runIds": await caller.service.cancel_all(caller.workspace_id, body.to_filter())})


@router.post("/retry", **describe("Retry all failed runs that match a filter.", RUN_IDS, scope="runs:write"))
async def retry_runs(caller: CurrentCaller, body: FilterBody) -> Response:
    return success_response({"runIds": await caller.service.retry_all(caller.workspace_id, body.to_filter())})


@router.get("/{id}", **describe("Get a run with its steps.", RUN_WITH_STEPS, scope="runs:read", errors=(404,)))
async def read_run(caller: CurrentCaller, run_id: PathId, wait: Wait = None) -> Response:
    """With `wait`, the response is delayed until the run has ended, waits for input or is paused, but at most that many
    seconds."""
    service, workspace = caller.service, caller.workspace_id
    run = await caller.context.shutdown.race(service.wait(workspace, run_id, wait)) if wait else None
    run = run or await service.run(workspace, run_id)
    steps = await service.steps(workspace, run_id)
    host = await _find_worker_host(caller, run)
    activities = await service.activities([run])
    shown = encode_in_list(run, activities[run.id], is_brief=False)
    return success_response({**shown, "workerHost": host, "stepRuns": STEP.encode_all(steps)})


async def _find_worker_host(caller: Caller, run: Run) -> str | None:
    """Return the name of the machine of the worker that advances a run.

    Return None if no worker does, or the caller may not read workers, which belong to no workspace.
    """
    may_read = caller.key is None or WORKERS_READ in caller.key.scopes
    if run.worker_id is None or not may_read:
        return None
    worker: Worker | None = await aresolve(caller.ledger.get(Worker, run.worker_id))
    return worker.host if worker is not None else None


_CONTROL_ROUTE: dict[str, Any] = {"scope": "runs:write", "errors": (404, 409)}
"""The arguments of `describe` that the following routes have in common."""


@router.post("/{id}/resume", **describe("Resume a run.", RUN, **_CONTROL_ROUTE))
async def resume_run(
    caller: CurrentCaller, run_id: PathId, body: ResumeBody | None = None, idempotency_key: IdempotencyKeyHeader = None
) -> Response:
    """Send a signal that the run waits for, answers to its questions, or no body if it is paused. Answering an approval
    also requires the scope `approvals:decide`."""
    service, workspace = caller.service, caller.workspace_id
    if body is not None and body.answers is not None:
        run = await service.answer(workspace, run_id, body.answers, key=caller.key)
    elif body is not None and body.signal_type is not None:
        payload = body.payload or {}
        key = resolve_idempotency_key(idempotency_key, body.signal_id, "signalId")
        run = await service.signal(
            workspace, run_id, body.signal_type, payload, key=key, must_wait=True, sender=caller.key
        )
    else:
        run = await service.resume(workspace, run_id)
    return RUN.to_response(run)


@router.post("/{id}/signals", **describe("Send a signal to a run.", RUN, **_CONTROL_ROUTE))
async def signal_run(
    caller: CurrentCaller, run_id: PathId, body: SignalBody, idempotency_key: IdempotencyKeyHeader = None
) -> Response:
    """The signal may arrive before the run waits for it: it is stored until then."""
    key = resolve_idempotency_key(idempotency_key, body.signal_id, "signalId")
    run = await caller.service.signal(
        caller.workspace_id, run_id, body.signal_type, body.payload, key=key, sender=caller.key
    )
    return RUN.to_response(run)


@router.post("/{id}/cancel", **describe("Cancel a run.", RUN, **_CONTROL_ROUTE))
async def cancel_run(caller: CurrentCaller, run_id: PathId, body: CancelBody | None = None) -> Response:
    """A run that has ended is not changed."""
    reason = body.reason if body is not None else None
    return RUN.to_response(await caller.service.cancel(caller.workspace_id, run_id, reason))


@router.post("/{id}/pause", **describe("Pause a run after its current step.", RUN, **_CONTROL_ROUTE))
async def pause_run(caller: CurrentCaller, run_id: PathId) -> Response:
    return RUN.to_response(await caller.service.pause(caller.workspace_id, run_id))


@router.post("/{id}/retry", **describe("Retry a failed run from the step that failed.", RUN, **_CONTROL_ROUTE))
async def retry_run(caller: CurrentCaller, run_id: PathId) -> Response:
    return RUN.to_response(await caller.service.retry(caller.workspace_id, run_id))
