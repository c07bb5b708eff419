"""Details of a run: steps, state, logs, model calls, cost, events, and the live stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from statewright.errors import InvalidRequest
from statewright.server.http.encode import answer
from statewright.server.http.parameters import PageNumber, PageSize, meta
from statewright.server.http.route import Identity, Signed, StrictRoute, described
from statewright.server.models.base import JsonMap, all_shown, shown
from statewright.server.models.costs import CostShown, ModelCost, Spent
from statewright.server.models.runs import EventShown, LogShown, ModelCallShown, StepShown
from statewright.server.streaming.event_bytes import shown_event
from statewright.server.streaming.event_stream import EventStream

router = APIRouter(prefix="/api/v1/workflow-runs/{id}", route_class=StrictRoute, tags=["workflow-runs"])


@router.get("/steps", **described("The steps of a run.", list[StepShown], scope="runs:read", errors=(404,)))
async def read_steps(caller: Signed, identity: Identity) -> Response:
    return answer(all_shown(StepShown, await caller.service.steps(caller.workspace_id, identity)))


@router.get("/state", **described("The state of a run as it is now.", JsonMap, scope="runs:read", errors=(404,)))
async def read_state(caller: Signed, identity: Identity) -> Response:
    return answer(await caller.service.state(caller.workspace_id, identity))


@router.get("/llm-calls", **described("Calls of models.", list[ModelCallShown], scope="runs:read", errors=(404,)))
async def read_model_calls(caller: Signed, identity: Identity) -> Response:
    return answer(all_shown(ModelCallShown, await caller.service.model_calls(caller.workspace_id, identity)))


@router.get(
    "/logs", **described("What its steps logged and printed.", list[LogShown], scope="runs:read", errors=(404,))
)
async def read_logs(
    caller: Signed,
    identity: Identity,
    step: Annotated[str | None, Query(description="The name of a step: only what that one wrote.")] = None,
) -> Response:
    return answer(all_shown(LogShown, await caller.service.logs(caller.workspace_id, identity, step=step)))


@router.get("/cost", **described("What a run has cost.", CostShown, scope="runs:read", errors=(404,)))
async def read_cost(caller: Signed, identity: Identity) -> Response:
    cost = await caller.service.cost(caller.workspace_id, identity)
    by_model = all_shown(ModelCost, cost.by_model)
    calls = all_shown(ModelCallShown, cost.calls)
    return answer({"total": shown(Spent, cost.total), "byModel": by_model, "calls": calls})


@router.get(
    "/events",
    **described(
        "What has happened to a run, the oldest first.", EventShown, scope="runs:read", page=True, errors=(404,)
    ),
)
async def read_events(
    caller: Signed,
    identity: Identity,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only events after this number.")] = 0,
) -> Response:
    run = await caller.service.run(caller.workspace_id, identity)
    begin = after + (page - 1) * page_size
    found = await caller.service.events(caller.workspace_id, identity, after=begin, limit=page_size)
    total = max(run.last_event - after, 0)
    return answer([shown_event(event) for event in found], meta=meta(page, page_size, total))


_EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "description": "The type of the event."},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "description": "Its number in the log of the run."},
    },
}
_STREAM = {
    "content": {"text/event-stream": {"schema": _EVENT}},
    "description": "Server-sent events: `event` is the type, `data` one line of JSON, `id` the number of the event.",
}


def _stream_described() -> dict[str, object]:
    told = described("What happens to a run, as it happens.", scope="runs:read", errors=(404,))
    return {**told, "responses": {**told["responses"], 200: _STREAM}}


@router.get("/stream", **_stream_described())  # pyright: ignore[reportArgumentType]
async def stream_events(
    caller: Signed,
    identity: Identity,
    last_event_id: Annotated[str | None, Query(alias="lastEventId", description="As the header.")] = None,
    header: Annotated[
        str | None,
        Header(alias="last-event-id", description="The number of the event that was seen last: what follows is sent."),
    ] = None,
    live: Annotated[bool, Query(description="Also what is not kept, such as pieces of messages.")] = False,
) -> Response:
    """All events from the first or from the one after `Last-Event-ID`, then each as it happens, until the run ends."""
    after = _number(header if header is not None else last_event_id)
    await caller.service.run(caller.workspace_id, identity)
    source = caller.service.follow(caller.workspace_id, identity, after=after, live=live)
    return EventStream(source, caller, {"content-location": f"/api/v1/workflow-runs/{identity}"})


def _number(given: str | None) -> int:
    """Return the number after which the stream begins; 0 for none and -1."""
    if given is None or given in ("", "-1"):
        return 0
    if not given.isascii() or not given.isdigit() or len(given) > 15:
        raise InvalidRequest(
            f"Last-Event-ID is {given[:40]!r}. Send the id of an event of this run, which is a number."
        )
    return int(given)
