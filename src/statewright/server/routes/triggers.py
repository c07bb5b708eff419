"""Triggers: runs started by events."""

from __future__ import annotations

from fastapi import APIRouter, Response

from statewright.server.bodies.automation import TriggerBody, TriggerChanges
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import TRIGGER
from statewright.service.operations import triggers
from statewright.service.operations.triggers import NewTrigger

router = APIRouter(prefix="/api/v1/triggers", route_class=StrictRoute, tags=["triggers"])
_SCOPE = "schedules:manage"


@router.post("", **describe("Make a trigger.", TRIGGER, scope=_SCOPE, status=201, errors=(404,)))
async def add_trigger(caller: CurrentCaller, body: TriggerBody) -> Response:
    new = NewTrigger(**body.model_dump())
    return TRIGGER.answer(await triggers.add_trigger(caller.ledger, caller.workspace_id, new, caller.now), 201)


@router.get("", **describe("Triggers, the oldest first.", TRIGGER, scope=_SCOPE, page=True))
async def list_triggers(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await triggers.list_triggers(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await triggers.count_triggers(caller.ledger, caller.workspace_id)
    return paging.answer(TRIGGER, items, total)


@router.get("/{id}", **describe("A trigger.", TRIGGER, scope=_SCOPE, errors=(404,)))
async def read_trigger(caller: CurrentCaller, trigger_id: PathId) -> Response:
    return TRIGGER.answer(await triggers.get_trigger(caller.ledger, caller.workspace_id, trigger_id))


@router.patch("/{id}", **describe("Change a trigger.", TRIGGER, scope=_SCOPE, errors=(404,)))
async def change_trigger(caller: CurrentCaller, trigger_id: PathId, body: TriggerChanges) -> Response:
    changes = {name: value for name, value in body.model_dump(exclude_unset=True).items() if value is not None}
    changed = await triggers.change_trigger(caller.ledger, caller.workspace_id, trigger_id, changes)
    return TRIGGER.answer(changed)


@router.delete("/{id}", **describe("Remove a trigger.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_trigger(caller: CurrentCaller, trigger_id: PathId) -> Response:
    await triggers.remove_trigger(caller.ledger, caller.workspace_id, trigger_id)
    return Response(status_code=204)
