"""Schedules: runs started by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from statewright.server.http.encode import answer
from statewright.server.http.parameters import Paged
from statewright.server.http.route import PathId, Signed, StrictRoute, described
from statewright.server.models.base import shown
from statewright.server.models.schedules import Preview, ScheduleBody, ScheduleChanges, ScheduleShown
from statewright.service import schedules
from statewright.service.schedules import NewSchedule

router = APIRouter(prefix="/api/v1/schedules", route_class=StrictRoute, tags=["schedules"])
_SCOPE = "schedules:manage"


@router.post(
    "",
    **described("Make a schedule.", ScheduleShown, scope=_SCOPE, status=201, errors=(404, 409)),
)
async def add_schedule(caller: Signed, body: ScheduleBody) -> Response:
    created = await schedules.add_schedule(
        caller.ledger, caller.workspace_id, NewSchedule(**body.model_dump()), caller.now
    )
    caller.service.ring()
    return answer(shown(ScheduleShown, created), status=201)


@router.get(
    "",
    **described("Schedules, by their names.", ScheduleShown, scope=_SCOPE, page=True),
)
async def list_schedules(caller: Signed, page: Paged) -> Response:
    items = await schedules.list_schedules(caller.ledger, caller.workspace_id, limit=page.size, offset=page.offset)
    total = await schedules.count_schedules(caller.ledger, caller.workspace_id)
    return page.answer(ScheduleShown, items, total)


@router.get(
    "/{id}",
    **described("A schedule.", ScheduleShown, scope=_SCOPE, errors=(404,)),
)
async def read_schedule(caller: Signed, schedule_id: PathId) -> Response:
    return answer(shown(ScheduleShown, await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id)))


@router.patch(
    "/{id}",
    **described("Change a schedule.", ScheduleShown, scope=_SCOPE, errors=(404, 409)),
)
async def change_schedule(caller: Signed, schedule_id: PathId, body: ScheduleChanges) -> Response:
    changes = {name: value for name, value in body.model_dump(exclude_unset=True).items() if _is_set(name, value)}
    changed = await schedules.change_schedule(caller.ledger, caller.workspace_id, schedule_id, changes, caller.now)
    caller.service.ring()
    return answer(shown(ScheduleShown, changed))


def _is_set(name: str, value: object) -> bool:
    """Return whether a field changes: null is a value of the input only."""
    return value is not None or name == "input"


@router.post(
    "/{id}/pause",
    **described("Start nothing until it is resumed.", ScheduleShown, scope=_SCOPE, errors=(404, 409)),
)
async def pause_schedule(caller: Signed, schedule_id: PathId) -> Response:
    paused = await schedules.pause_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    return answer(shown(ScheduleShown, paused))


@router.post(
    "/{id}/resume",
    **described("Go on with the next time after now.", ScheduleShown, scope=_SCOPE, errors=(404, 409)),
)
async def resume_schedule(caller: Signed, schedule_id: PathId) -> Response:
    resumed = await schedules.resume_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    caller.service.ring()
    return answer(shown(ScheduleShown, resumed))


@router.get(
    "/{id}/preview",
    **described("When it starts its next runs.", Preview, scope=_SCOPE, errors=(404,)),
)
async def preview_schedule(
    caller: Signed, schedule_id: PathId, count: Annotated[int, Query(ge=1, le=100)] = 10
) -> Response:
    schedule = await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return answer({"times": schedules.preview(schedule, count, caller.now)})


@router.delete(
    "/{id}",
    **described("Remove a schedule.", scope=_SCOPE, status=204, errors=(404,)),
)
async def remove_schedule(caller: Signed, schedule_id: PathId) -> Response:
    await schedules.remove_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return Response(status_code=204)
