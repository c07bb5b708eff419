"""Routes for the details of a run: steps, state, logs, model calls, cost, events, and the event stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response

from statewright.errors import InvalidRequest
from statewright.server.http.body import JsonMap
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import PageNumber, PageSize, Paging
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import COST, EVENT, LOG, MODEL_CALL, STEP, STEP_STATES, TRACE
from statewright.server.streaming.event_stream import EventStream
from statewright.service.operations.trace import MAX_STEPS

StepId = Annotated[str, Path(alias="stepId", min_length=1, max_length=200)]
router = APIRouter(prefix="/api/v1/workflow-runs/{id}", route_class=StrictRoute, tags=["workflow-runs"])


@router.get("/steps", **describe("List the steps of a run.", STEP, is_list=True, scope="runs:read", errors=(404,)))
async def read_steps(caller: CurrentCaller, run_id: PathId) -> Response:
    return STEP.to_list_response(await caller.service.steps(caller.workspace_id, run_id))


@router.get(
    "/trace",
    **describe("Get the steps of a run with their attempts, waits and calls.", TRACE, scope="runs:read", errors=(404,)),
)
async def read_trace(
    caller: CurrentCaller,
    run_id: PathId,
    cursor: Annotated[
        str | None, Query(max_length=300, description="`nextCursor` of the page before; by default the first page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_STEPS, description="The maximum number of steps.")] = 100,
) -> Response:
    """The steps with their attempts, waits and calls, and the steps inside the subgraphs that they have called, two
    levels deep: everything that a waterfall shows."""
    trace = await caller.service.trace(caller.workspace_id, run_id, cursor=cursor, limit=limit)
    return TRACE.to_response(trace)


@router.get(
    "/steps/{stepId}/state",
    **describe("Get the state before and after a step.", STEP_STATES, scope="threads:read", errors=(404,)),
)
async def read_step_states(caller: CurrentCaller, run_id: PathId, step_id: StepId) -> Response:
    """The states at the checkpoints before and after the superstep of the step, which steps of the same superstep
    share."""
    return STEP_STATES.to_response(await caller.service.step_states(caller.workspace_id, run_id, step_id))


@router.get("/state", **describe("Get the current state of a run.", JsonMap, scope="runs:read", errors=(404,)))
async def read_state(caller: CurrentCaller, run_id: PathId) -> Response:
    return success_response(await caller.service.state(caller.workspace_id, run_id))


@router.get(
    "/llm-calls",
    **describe("List the model calls of a run.", MODEL_CALL, is_list=True, scope="runs:read", errors=(404,)),
)
async def read_model_calls(caller: CurrentCaller, run_id: PathId) -> Response:
    return MODEL_CALL.to_list_response(await caller.service.model_calls(caller.workspace_id, run_id))


@router.get(
    "/logs", **describe("List the captured logs of a run.", LOG, is_list=True, scope="runs:read", errors=(404,))
)
async def read_logs(
    caller: CurrentCaller,
    run_id: PathId,
    step: Annotated[str | None, Query(description="Only the logs of steps with this name.")] = None,
) -> Response:
    return LOG.to_list_response(await caller.service.logs(caller.workspace_id, run_id, step=step))


@router.get("/cost", **describe("Get the cost of a run.", COST, scope="runs:read", errors=(404,)))
async def read_cost(caller: CurrentCaller, run_id: PathId) -> Response:
    return COST.to_response(await caller.service.cost(caller.workspace_id, run_id))


@router.get(
    "/events",
    **describe("List the events of a run, oldest first.", EVENT, scope="runs:read", is_paged=True, errors=(404,)),
)
async def read_events(
    caller: CurrentCaller,
    run_id: PathId,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only events after this number.")] = 0,
) -> Response:
    run = await caller.service.run(caller.workspace_id, run_id)
    paging = Paging(page, page_size)
    # The events of a run are numbered without gaps, so a number is also an offset.
    first = after + paging.offset
    events = await caller.service.events(caller.workspace_id, run_id, after=first, limit=page_size)
    return paging.to_response(EVENT, events, max(run.last_event - after, 0))


_EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "description": "The type of the event."},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "description": "The number of a stored event."},
    },
}
_STREAM = {
    "content": {"text/event-stream": {"schema": _EVENT}},
    "description": "Server-sent events: `event` is the type, `data` one line of JSON, `id` the event number.",
}


@router.get(
    "/stream",
    **describe("Stream the events of a run.", scope="runs:read", errors=(404,), raw_responses={200: _STREAM}),
)
async def stream_events(
    caller: CurrentCaller,
    run_id: PathId,
    last_event_id: Annotated[
        str | None, Query(alias="lastEventId", description="Same as the header Last-Event-ID, which takes precedence.")
    ] = None,
    header: Annotated[
        str | None,
        Header(alias="last-event-id", description="The number of the last event received; only later ones are sent."),
    ] = None,
    live: Annotated[bool, Query(description="Include events that are not stored, such as message chunks.")] = False,
) -> Response:
    """Sends the stored events after `Last-Event-ID`, then new ones as they are written, until the run has ended."""
    after = _parse_event_id(header if header is not None else last_event_id)
    await caller.service.run(caller.workspace_id, run_id)
    source = caller.service.follow(caller.workspace_id, run_id, after=after, live=live)
    return EventStream(source, caller, {"content-location": f"/api/v1/workflow-runs/{run_id}"})


def _parse_event_id(event_id: str | None) -> int:
    """Return the event number in a Last-Event-ID; 0 if it is missing, empty or -1."""
    if event_id is None or event_id in ("", "-1"):
        return 0
    if not event_id.isascii() or not event_id.isdigit() or len(event_id) > 15:
        raise InvalidRequest(
            f"Last-Event-ID is {event_id[:40]!r}, but must be a number. Send the id of an event of this run."
        )
    return int(event_id)
