"""Routes of schedules, which start runs at certain times, and of triggers, which start runs for events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from statewright.api.automation import CatchUp, Overlap
from statewright.data.mappings import without_none
from statewright.server.http.body import Body, JsonMap, Name, Tag, WorkflowBody
from statewright.server.http.encode import success_response
from statewright.server.http.parameters import PageQuery
from statewright.server.http.route import CurrentCaller, PathId, StrictRoute, describe
from statewright.server.resources import PREVIEW, SCHEDULE, TRIGGER
from statewright.service import schedules
from statewright.service.operations import triggers
from statewright.service.operations.triggers import NewTrigger
from statewright.service.schedules import NewSchedule

schedules_router = APIRouter(prefix="/api/v1/schedules", route_class=StrictRoute, tags=["schedules"])
triggers_router = APIRouter(prefix="/api/v1/triggers", route_class=StrictRoute, tags=["triggers"])
_SCOPE = "schedules:manage"
Cron = Annotated[str, Field(min_length=1, max_length=200, examples=["0 9 * * MON-FRI"])]
Zone = Annotated[str, Field(min_length=1, max_length=100, examples=["Europe/Berlin"])]


class ScheduleBody(WorkflowBody):
    """A schedule to create."""

    name: Name
    cron: Cron
    timezone: Zone = "UTC"
    input: Any = None
    overlap: Overlap = "skip"
    catch_up: CatchUp = "last"
    paused: bool = False
    tags: list[Tag] = Field(default_factory=list[str], max_length=50)
    metadata: JsonMap = Field(default_factory=dict, max_length=50)


class PreviewBody(Body):
    """A cron expression whose next times are wanted."""

    cron: Cron
    timezone: Zone = "UTC"
    count: Annotated[int, Field(ge=1, le=100)] = 10


class ScheduleChanges(Body):
    """Changes to a schedule."""

    name: Name | None = None
    cron: Cron | None = None
    timezone: Zone | None = None
    input: Any = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    tags: list[Tag] | None = Field(default=None, max_length=50)
    metadata: JsonMap | None = Field(default=None, max_length=50)


class TriggerBody(WorkflowBody):
    """A trigger to create."""

    event: Name
    match: JsonMap = Field(default_factory=dict, max_length=20)
    """Required values in the payload, by dotted path; empty matches every event."""


class TriggerChanges(Body):
    """Changes to a trigger."""

    match: JsonMap | None = Field(default=None, max_length=20)
    active: bool | None = None


# -- schedules


@schedules_router.post("", **describe("Create a schedule.", SCHEDULE, scope=_SCOPE, status=201, errors=(404, 409)))
async def add_schedule(caller: CurrentCaller, body: ScheduleBody) -> Response:
    schedule = await schedules.add_schedule(
        caller.ledger,
        caller.workspace_id,
        NewSchedule(**body.model_dump()),
        caller.now,
        check_input=caller.service.starter.check_later_input,
    )
    caller.service.wake_background_tasks()
    return SCHEDULE.to_response(schedule, 201)


@schedules_router.get("", **describe("List schedules, sorted by name.", SCHEDULE, scope=_SCOPE, is_paged=True))
async def list_schedules(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await schedules.list_schedules(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await schedules.count_schedules(caller.ledger, caller.workspace_id)
    return paging.to_response(SCHEDULE, items, total)


@schedules_router.post("/preview", **describe("Preview the times of a cron expression.", PREVIEW, scope=_SCOPE))
async def preview_cron(caller: CurrentCaller, body: PreviewBody) -> Response:
    """Nothing is stored. The times are fewer than `count` if the expression is not due so often within 50 years."""
    return success_response({"times": schedules.preview_cron(body.cron, body.timezone, body.count, caller.now)})


@schedules_router.get("/{id}", **describe("Get a schedule.", SCHEDULE, scope=_SCOPE, errors=(404,)))
async def read_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    return SCHEDULE.to_response(await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id))


@schedules_router.patch("/{id}", **describe("Change a schedule.", SCHEDULE, scope=_SCOPE, errors=(404, 409)))
async def change_schedule(caller: CurrentCaller, schedule_id: PathId, body: ScheduleChanges) -> Response:
    fields = body.model_dump(exclude_unset=True)
    # For the input, null is a value; for other fields it means no change.
    changes = {name: value for name, value in fields.items() if value is not None or name == "input"}
    changed = await schedules.change_schedule(
        caller.ledger,
        caller.workspace_id,
        schedule_id,
        changes,
        caller.now,
        check_input=caller.service.starter.check_later_input,
    )
    caller.service.wake_background_tasks()
    return SCHEDULE.to_response(changed)


@schedules_router.post("/{id}/pause", **describe("Pause a schedule.", SCHEDULE, scope=_SCOPE, errors=(404, 409)))
async def pause_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    paused = await schedules.pause_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    return SCHEDULE.to_response(paused)


@schedules_router.post(
    "/{id}/resume", **describe("Resume a schedule from its next time.", SCHEDULE, scope=_SCOPE, errors=(404, 409))
)
async def resume_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    resumed = await schedules.resume_schedule(caller.ledger, caller.workspace_id, schedule_id, caller.now)
    caller.service.wake_background_tasks()
    return SCHEDULE.to_response(resumed)


@schedules_router.get(
    "/{id}/preview", **describe("Preview the next times of a schedule.", PREVIEW, scope=_SCOPE, errors=(404,))
)
async def preview_schedule(
    caller: CurrentCaller, schedule_id: PathId, count: Annotated[int, Query(ge=1, le=100)] = 10
) -> Response:
    schedule = await schedules.get_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return success_response({"times": schedules.preview(schedule, count, caller.now)})


@schedules_router.delete("/{id}", **describe("Remove a schedule.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_schedule(caller: CurrentCaller, schedule_id: PathId) -> Response:
    await schedules.remove_schedule(caller.ledger, caller.workspace_id, schedule_id)
    return Response(status_code=204)


# -- triggers


@triggers_router.post("", **describe("Create a trigger.", TRIGGER, scope=_SCOPE, status=201, errors=(404,)))
async def add_trigger(caller: CurrentCaller, body: TriggerBody) -> Response:
    new = NewTrigger(**body.model_dump())
    return TRIGGER.to_response(await triggers.add_trigger(caller.ledger, caller.workspace_id, new, caller.now), 201)


@triggers_router.get("", **describe("List triggers, oldest first.", TRIGGER, scope=_SCOPE, is_paged=True))
async def list_triggers(caller: CurrentCaller, paging: PageQuery) -> Response:
    items = await triggers.list_triggers(caller.ledger, caller.workspace_id, limit=paging.size, offset=paging.offset)
    total = await triggers.count_triggers(caller.ledger, caller.workspace_id)
    return paging.to_response(TRIGGER, items, total)


@triggers_router.get("/{id}", **describe("Get a trigger.", TRIGGER, scope=_SCOPE, errors=(404,)))
async def read_trigger(caller: CurrentCaller, trigger_id: PathId) -> Response:
    return TRIGGER.to_response(await triggers.get_trigger(caller.ledger, caller.workspace_id, trigger_id))


@triggers_router.patch("/{id}", **describe("Change a trigger.", TRIGGER, scope=_SCOPE, errors=(404,)))
async def change_trigger(caller: CurrentCaller, trigger_id: PathId, body: TriggerChanges) -> Response:
    changes = without_none(body.model_dump(exclude_unset=True))
    changed = await triggers.change_trigger(caller.ledger, caller.workspace_id, trigger_id, changes)
    return TRIGGER.to_response(changed)


@triggers_router.delete("/{id}", **describe("Remove a trigger.", scope=_SCOPE, status=204, errors=(404,)))
async def remove_trigger(caller: CurrentCaller, trigger_id: PathId) -> Response:
    await triggers.remove_trigger(caller.ledger, caller.workspace_id, trigger_id)
    return Response(status_code=204)
