"""Details of a run: steps, state, logs, model calls, cost, events, and the live stream."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from statewright.errors import InvalidRequest
from statewright.server.http.encode import answer
from statewright.server.http.parameters import Page, PageNumber, PageSize
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.base import JsonMap, all_shown, shown
from statewright.server.models.costs import CostShown, ModelCost, Spent
from statewright.server.models.runs import EventShown, LogShown, ModelCallShown, StepShown
from statewright.server.streaming.event_bytes import shown_event
from statewright.server.streaming.event_stream import EventStream

router = APIRouter(prefix="/api/v1/workflow-runs/{id}", route_class=StrictRoute, tags=["workflow-runs"])


@router.get("/steps", **described("The steps of a run.", list[StepShown], scope="runs:read", errors=(404,)))
async def read_steps(caller: Signed, run_id: PathId) -> Response:
    return answer(all_shown(StepShown, await caller.service.steps(caller.workspace_id, run_id)))


@router.get("/state", **described("The state of a run as it is now.", JsonMap, scope="runs:read", errors=(404,)))
async def read_state(caller: Signed, run_id: PathId) -> Response:
    return answer(await caller.service.state(caller.workspace_id, run_id))


@router.get("/llm-calls", **described("Calls of models.", list[ModelCallShown], scope="runs:read", errors=(404,)))
async def read_model_calls(caller: Signed, run_id: PathId) -> Response:
    return answer(all_shown(ModelCallShown, await caller.service.model_calls(caller.workspace_id, run_id)))


@router.get(
    "/logs", **described("What its steps logged and printed.", list[LogShown], scope="runs:read", errors=(404,))
)
async def read_logs(
    caller: Signed,
    run_id: PathId,
    step: Annotated[str | None, Query(description="The name of a step: only what that one wrote.")] = None,
) -> Response:
    return answer(all_shown(LogShown, await caller.service.logs(caller.workspace_id, run_id, step=step)))


@router.get("/cost", **described("What a run has cost.", CostShown, scope="runs:read", errors=(404,)))
async def read_cost(caller: Signed, run_id: PathId) -> Response:
    cost = await caller.service.cost(caller.workspace_id, run_id)
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
    run_id: PathId,
    page: PageNumber = 1,
    page_size: PageSize = 20,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only events after this number.")] = 0,
) -> Response:
    run = await caller.service.run(caller.workspace_id, run_id)
    wanted = Page(page, page_size)
    events = await caller.service.events(caller.workspace_id, run_id, after=after + wanted.offset, limit=page_size)
    return answer([shown_event(event) for event in events], meta=wanted.meta(max(run.last_event - after, 0)))


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
    route = described("What happens to a run, as it happens.", scope="runs:read", errors=(404,))
    return {**route, "responses": {**route["responses"], 200: _STREAM}}


@router.get("/stream", **_stream_described())  # pyright: ignore[reportArgumentType]
async def stream_events(
    caller: Signed,
    run_id: PathId,
    last_event_id: Annotated[str | None, Query(alias="lastEventId", description="As the header.")] = None,
    header: Annotated[
        str | None,
        Header(alias="last-event-id", description="The number of the event that was seen last: what follows is sent."),
    ] = None,
    live: Annotated[bool, Query(description="Also what is not kept, such as pieces of messages.")] = False,
) -> Response:
    """All events from the first or from the one after `Last-Event-ID`, then each as it happens, until the run ends."""
    after = _event_number(header if header is not None else last_event_id)
    await caller.service.run(caller.workspace_id, run_id)
    source = caller.service.follow(caller.workspace_id, run_id, after=after, live=live)
    return EventStream(source, caller, {"content-location": f"/api/v1/workflow-runs/{run_id}"})


def _event_number(text: str | None) -> int:
    """Return the number after which the stream begins; 0 for none and -1."""
    if text is None or text in ("", "-1"):
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidRequest(f"Last-Event-ID is {text[:40]!r}. Send the id of an event of this run, which is a number.")
    return int(text)
