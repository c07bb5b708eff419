"""Triggers: runs started by events."""

from __future__ import annotations

from fastapi import APIRouter, Response

from statewright.server.http.encode import answer
from statewright.server.http.parameters import Paged
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.base import shown
from statewright.server.models.schedules import TriggerBody, TriggerChanges, TriggerShown
from statewright.service.operations import triggers
from statewright.service.operations.triggers import NewTrigger

router = APIRouter(prefix="/api/v1/triggers", route_class=StrictRoute, tags=["triggers"])
_SCOPE = "schedules:manage"


@router.post(
    "",
    **described("Make a trigger.", TriggerShown, scope=_SCOPE, status=201, errors=(404,)),
)
async def add_trigger(caller: Signed, body: TriggerBody) -> Response:
    created = await triggers.add_trigger(
        caller.ledger, caller.workspace_id, NewTrigger(**body.model_dump()), caller.now
    )
    return answer(shown(TriggerShown, created), status=201)


@router.get(
    "",
    **described("Triggers, the oldest first.", TriggerShown, scope=_SCOPE, page=True),
)
async def list_triggers(caller: Signed, page: Paged) -> Response:
    items = await triggers.list_triggers(caller.ledger, caller.workspace_id, limit=page.size, offset=page.offset)
    total = await triggers.count_triggers(caller.ledger, caller.workspace_id)
    return page.answer(TriggerShown, items, total)


@router.get(
    "/{id}",
    **described("A trigger.", TriggerShown, scope=_SCOPE, errors=(404,)),
)
async def read_trigger(caller: Signed, trigger_id: PathId) -> Response:
    return answer(shown(TriggerShown, await triggers.get_trigger(caller.ledger, caller.workspace_id, trigger_id)))


@router.patch(
    "/{id}",
    **described("Change a trigger.", TriggerShown, scope=_SCOPE, errors=(404,)),
)
async def change_trigger(caller: Signed, trigger_id: PathId, body: TriggerChanges) -> Response:
    changes = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    changed = await triggers.change_trigger(caller.ledger, caller.workspace_id, trigger_id, changes)
    return answer(shown(TriggerShown, changed))


@router.delete(
    "/{id}",
    **described("Remove a trigger.", scope=_SCOPE, status=204, errors=(404,)),
)
async def remove_trigger(caller: Signed, trigger_id: PathId) -> Response:
    await triggers.remove_trigger(caller.ledger, caller.workspace_id, trigger_id)
    return Response(status_code=204)
