"""Schedules: runs started by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.server.bodies.automation import ScheduleBody, ScheduleChanges
from statewright.server.http.encode import answer
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import PREVIEW, SCHEDULE
from statewright.service import schedules
from statewright.service.schedules import NewSchedule

router = APIRouter(prefix="/api/v1/schedules", route_class=StrictRoute, tags=["schedules"])
_SCOPE = "schedules:manage"


@router.post("", **describe("Make a schedule.", SCHEDULE, scope=_SCOPE, status=201, errors=(404, 409)))
async def add_schedule(caller: CurrentCaller, body: ScheduleBody) -> Response:
    schedule = await schedules.add_schedule(
        caller.ledger, caller.workspace_id, NewSchedule(**body.model_dump()), caller.now
    )
    caller.service.ring()
    return SCHEDULE.answer(schedule, 201)


@router.get("", **describe("Schedules, by their names.", SCHEDULE, scope=_SCOPE, page=True))
async def list_schedules(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await schedules.list_schedules(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await schedules.count_schedules(caller.ledger, caller.workspace_id)
    return paging.answer(SCHEDULE, items, total)


@router.get("/{id}", **describe("A schedule.", SCHEDULE, scope=_SCOPE, errors=(404,)))
async def read_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    return SCHEDULE.answer(await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id))


@router.patch("/{id}", **describe("Change a schedule.", SCHEDULE, scope=_SCOPE, errors=(404, 409)))
async def change_schedule(caller: CurrentCaller, schedule_id: PathId, body: ScheduleChanges) -> Response:
    changes = {name: value for name, value in body.model_dump(exclude_unset=True).items() if _is_change(name, value)}
    changed = await schedules.change_schedule(caller.ledger, caller.workspace_id, schedule_id, changes, caller.now)
    caller.service.ring()
    return SCHEDULE.answer(changed)


def _is_change(name: str, value: object) -> bool:
    """Return True if the field is to change: null is a value of the input, and means no change elsewhere."""
    return value is not None or name == "input"


@router.post("/{id}/pause", **describe("Start nothing until it is resumed.", SCHEDULE, scope=_SCOPE, errors=(404, 409)))
async def pause_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    paused = await schedules.pause_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    return SCHEDULE.answer(paused)


@router.post(
    "/{id}/resume", **describe("Go on with the next time after now.", SCHEDULE, scope=_SCOPE, errors=(404, 409))
)
async def resume_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    resumed = await schedules.resume_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    caller.service.ring()
    return SCHEDULE.answer(resumed)


@router.get("/{id}/preview", **describe("When it starts its next runs.", PREVIEW, scope=_SCOPE, errors=(404,)))
async def preview_schedule(
    caller: CurrentCaller, schedule_id: PathId, count: Annotated[int, Query(ge=1, le=100)] = 10
) -> Response:
    schedule = await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return answer({"times": schedules.preview(schedule, count, caller.now)})


@router.delete("/{id}", **describe("Remove a schedule.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    await schedules.remove_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return Response(status_code=204)
