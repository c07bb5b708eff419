"""The schedules of a workspace: validation, and operations on their records.

Schedules of other workspaces are treated as missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import DuplicateRecord, InvalidRequest, RecordConflict, RequestConflict
from statewright.ids import new_checkpoint_id
from statewright.runs import Delete, Insert, Json, Ledger, Order, Plus, Schedule, Update, where
from statewright.service.catalog.versions import find_target, with_one_target
from statewright.service.context.records import get_in_workspace
from statewright.service.context.validation import (
    validate_bool,
    validate_choice,
    validate_field_names,
    validate_mapping,
    validate_string,
    validate_strings,
)
from statewright.service.schedules.cron import iter_times, next_time, validate_cron, zone_of

OVERLAPS: Final = ("skip", "enqueue", "allow", "cancel")
CATCH_UPS: Final = ("none", "last", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to create, with either `graph` or `definition_id`."""

    name: str
    cron: str
    """Five fields: minute, hour, day of the month, month, day of the week."""
    graph: str | None = None
    definition_id: str | None = None
    timezone: str = "UTC"
    input: Json = None
    overlap: str = "skip"
    """The policy if the last run has not ended: `skip` the new run, `enqueue` it after the last run, `allow` both, or
    `cancel` the last run."""
    catch_up: str = "last"
    """The runs to start for times that were missed while no service was running: `none`, one for the `last` missed
    time, or `all` (at most 100)."""
    paused: bool = False
    tags: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def check_schedule(new: NewSchedule) -> None:
    """Raise InvalidRequest if a field of a schedule is invalid. The graph and the definition are not checked."""
    validate_string(new.name, "The name of a schedule")
    validate_cron(new.cron)
    zone_of(new.timezone)
    validate_choice(new.overlap, "The overlap of a schedule", OVERLAPS)
    validate_choice(new.catch_up, "The catch-up of a schedule", CATCH_UPS)
    validate_bool(new.paused, "A schedule's field 'paused'")
    validate_strings(new.tags, "The tags of a schedule")
    if "scheduledFor" in validate_mapping(new.metadata, "The metadata of a schedule"):
        raise InvalidRequest(
            "The metadata of a schedule cannot contain 'scheduledFor', where its runs store their scheduled time. "
            "Choose another key."
        )


# -- stored schedules

_MAX_PREVIEWED_TIMES: Final = 100
_MAX_TRIES: Final = 10
"""Maximum number of tries to update a schedule. A try fails if the scheduler has updated the schedule concurrently."""
_FIELDS: Final = tuple(field.name for field in fields(NewSchedule))


CheckInput = Callable[[str, str | None, str | None, Json], Awaitable[None]]
"""Raises InvalidRequest for the input of the runs of a graph or a definition in a workspace; see
`Starter.check_later_input`."""


async def add_schedule(
    ledger: Ledger, workspace_id: str, new: NewSchedule, now: datetime, *, check_input: CheckInput | None = None
) -> Schedule:
    """Create a schedule.

    Raises InvalidRequest, NotFound for an unknown definition, and RequestConflict for a name that is already in use.
    """
    values = await _resolve_columns(ledger, workspace_id, new, now)
    if check_input is not None:
        await check_input(workspace_id, new.graph, new.definition_id, new.input)
    schedule = Schedule(id=f"sch_{new_checkpoint_id()}", workspace_id=workspace_id, created_at=now, **values)
    try:
        await aresolve(ledger.write([Insert(schedule)]))
    except DuplicateRecord:
        raise _name_taken_error(new.name) from None
    return schedule


async def list_schedules(
    ledger: Ledger, workspace_id: str, *, limit: int | None = None, offset: int = 0
) -> list[Schedule]:
    """Return the schedules of a workspace, sorted by name."""
    conditions = where(workspace_id=workspace_id)
    return list(await aresolve(ledger.find(Schedule, conditions, order=Order("name"), limit=limit, offset=offset)))


async def count_schedules(ledger: Ledger, workspace_id: str) -> int:
    """Return the number of schedules of a workspace."""
    return await aresolve(ledger.count(Schedule, where(workspace_id=workspace_id)))


async def get_schedule(ledger: Ledger, workspace_id: str, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    return await get_in_workspace(ledger, Schedule, workspace_id, schedule_id, "schedule")


async def change_schedule(
    ledger: Ledger,
    workspace_id: str,
    schedule_id: str,
    changes: Mapping[str, Any],
    now: datetime,
    *,
    check_input: CheckInput | None = None,
) -> Schedule:
    """Change some fields of a schedule. Raises the errors of `add_schedule`, and NotFound for an unknown schedule.

    The next time of the schedule is computed again if the cron expression or the time zone changes, and also when the
    schedule is resumed, because times that passed while it was paused are not caught up.
    """
    validate_field_names(changes, _FIELDS, "A schedule")
    for _ in range(_MAX_TRIES):
        schedule = await get_schedule(ledger, workspace_id, schedule_id)
        new = replace(_as_request(schedule), **with_one_target(changes))
        values = await _resolve_columns(ledger, workspace_id, new, now)
        # A schedule whose graph has changed since can still be paused or renamed.
        if check_input is not None and not changes.keys().isdisjoint(("input", "graph", "definition_id")):
            await check_input(workspace_id, new.graph, new.definition_id, new.input)
        if (new.cron, new.timezone, new.paused) == (schedule.cron, schedule.timezone, schedule.paused):
            values["next_at"] = schedule.next_at
        update = Update(Schedule, schedule_id, {**values, "version": Plus(1)}, where(version=schedule.version))
        try:
            await aresolve(ledger.write([update]))
        except DuplicateRecord:
            raise _name_taken_error(new.name) from None
        except RecordConflict:
            continue
        return replace(schedule, **values, version=schedule.version + 1)
    raise RequestConflict(f"The schedule {schedule_id!r} is being changed concurrently. Try again.")


async def pause_schedule(ledger: Ledger, workspace_id: str, schedule_id: str, now: datetime) -> Schedule:
    """Pause a schedule. It starts no runs until it is resumed."""
    return await change_schedule(ledger, workspace_id, schedule_id, {"paused": True}, now)


async def resume_schedule(ledger: Ledger, workspace_id: str, schedule_id: str, now: datetime) -> Schedule:
    """Resume a schedule. Its next run is at its first time after now."""
    return await change_schedule(ledger, workspace_id, schedule_id, {"paused": False}, now)


async def remove_schedule(ledger: Ledger, workspace_id: str, schedule_id: str) -> None:
    """Remove a schedule; runs that it has started continue. Raises NotFound."""
    await get_schedule(ledger, workspace_id, schedule_id)
    await aresolve(ledger.write([Delete(Schedule, where(id=schedule_id, workspace_id=workspace_id))]))


def preview(schedule: Schedule | NewSchedule, count: int, after: datetime) -> list[datetime]:
    """Return the next `count` times at which a schedule is due, in UTC, even if it is paused. Raises InvalidRequest."""
    return preview_cron(schedule.cron, schedule.timezone, count, after)


def preview_cron(cron: str, timezone: str, count: int, after: datetime) -> list[datetime]:
    """Return the next `count` times at which a cron expression is due, in UTC. Raises InvalidRequest."""
    if not 1 <= count <= _MAX_PREVIEWED_TIMES:
        raise InvalidRequest(f"A preview shows 1 to {_MAX_PREVIEWED_TIMES} times, not {count}.")
    validate_cron(cron)
    return list(islice(iter_times(cron, timezone, after), count))


def _as_request(schedule: Schedule) -> NewSchedule:
    """Return the request that would create a stored schedule."""
    values = {name: getattr(schedule, name) for name in _FIELDS}
    if schedule.definition_id is not None:
        values["graph"] = None  # the record has the name of the definition here
    return NewSchedule(**values)


async def _resolve_columns(ledger: Ledger, workspace_id: str, new: NewSchedule, now: datetime) -> dict[str, Any]:
    """Validate a requested schedule, and return its columns by name. Raises InvalidRequest and NotFound."""
    check_schedule(new)
    target = await find_target(ledger, workspace_id, new.graph, new.definition_id)
    next_at = next_time(new.cron, new.timezone, now)
    if next_at is None:
        raise InvalidRequest(
            f"The cron expression {new.cron!r} matches no time within the next 50 years. Check its days and months.",
            details={"field": "cron"},
        )
    values = {name: getattr(new, name) for name in _FIELDS}
    values.update(graph=target.graph, definition_id=target.definition_id)
    values.update(tags=list(dict.fromkeys(new.tags)), metadata=dict(new.metadata))
    return {**values, "next_at": None if new.paused else next_at}


def _name_taken_error(name: str) -> RequestConflict:
    return RequestConflict(
        f"A schedule named {name!r} already exists. Choose another name, or change that schedule.",
        details={"field": "name"},
    )
