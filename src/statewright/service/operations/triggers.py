"""Triggers: rules of a workspace by which events start runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest
from statewright.ids import new_checkpoint_id
from statewright.runs import Delete, Insert, Json, Ledger, Order, Trigger, Update, where
from statewright.service.catalog.versions import find_target, with_one_target
from statewright.service.context.records import get_in_workspace
from statewright.service.context.requests import StartRun
from statewright.service.context.validation import (
    validate_bool,
    validate_field_names,
    validate_mapping,
    validate_string,
)

_MAX_PATHS: Final = 50
_FIELDS: Final = ("event", "graph", "definition_id", "match", "active")
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTrigger:
    """A trigger to create, with either `graph` or `definition_id`."""

    event: str
    """The name of the events that start a run."""
    graph: str | None = None
    definition_id: str | None = None
    match: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values that the payload must have, by path, such as `{"order.paid": True}`. By default, every payload matches."""
    active: bool = True


# -- matching


def matching_triggers(triggers: Iterable[Trigger], name: str, payload: Json) -> list[Trigger]:
    """Return the triggers that match an event, in the given order."""
    return [
        trigger
        for trigger in triggers
        if trigger.active and trigger.event == name and _matches_payload(trigger.match, payload)
    ]


def runs_of_event(triggers: Iterable[Trigger], event_id: str, name: str, payload: Json) -> list[StartRun]:
    """Return the requests for the runs that an event starts. The id of the event is part of their idempotency keys."""
    return [
        StartRun(
            graph=trigger.graph if trigger.definition_id is None else None,
            definition_id=trigger.definition_id,
            input=payload,
            idempotency_key=f"event:{event_id}:{trigger.id}",
            source=f"event:{event_id}",
        )
        for trigger in matching_triggers(triggers, name, payload)
    ]


def _matches_payload(match: Mapping[str, Any], payload: Json) -> bool:
    return all(_is_same_json(_value_at(payload, path), value) for path, value in match.items())


def _value_at(value: Any, path: str) -> Any:
    """Return the value at a dotted path of map keys and list indexes; `_ABSENT` if there is none."""
    for part in path.split("."):
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(part, _ABSENT)
        elif isinstance(value, list) and part.isascii() and part.isdigit():
            items = cast("list[Any]", value)
            value = items[int(part)] if len(part) < 10 and int(part) < len(items) else _ABSENT
        else:
            return _ABSENT
    return value


def _is_same_json(value: Any, other: Any) -> bool:
    """Return True if two values are equal as JSON, in which `true` and `1` differ."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", value), cast("dict[str, Any]", other)
        return left.keys() == right.keys() and all(_is_same_json(item, right[name]) for name, item in left.items())
    if isinstance(value, list) and isinstance(other, list):
        items, other_items = cast("list[Any]", value), cast("list[Any]", other)
        return len(items) == len(other_items) and all(map(_is_same_json, items, other_items))
    return value == other


# -- stored triggers


async def add_trigger(ledger: Ledger, workspace_id: str, new: NewTrigger, now: datetime) -> Trigger:
    """Create a trigger. Raises InvalidRequest, and NotFound for an unknown definition."""
    values = await _validate_columns(ledger, workspace_id, new)
    trigger = Trigger(id=f"trg_{new_checkpoint_id()}", workspace_id=workspace_id, created_at=now, **values)
    await aresolve(ledger.write([Insert(trigger)]))
    return trigger


async def list_triggers(
    ledger: Ledger, workspace_id: str, *, event: str | None = None, limit: int | None = None, offset: int = 0
) -> list[Trigger]:
    """Return the triggers of a workspace, or those for one event name, the oldest first."""
    conditions = where(workspace_id=workspace_id) if event is None else where(workspace_id=workspace_id, event=event)
    return list(await aresolve(ledger.find(Trigger, conditions, order=Order("created_at"), limit=limit, offset=offset)))


async def count_triggers(ledger: Ledger, workspace_id: str) -> int:
    """Return the number of triggers of a workspace."""
    return await aresolve(ledger.count(Trigger, where(workspace_id=workspace_id)))


async def get_trigger(ledger: Ledger, workspace_id: str, trigger_id: str) -> Trigger:
    """Return a trigger. Raises NotFound."""
    return await get_in_workspace(ledger, Trigger, workspace_id, trigger_id, "trigger")


async def change_trigger(ledger: Ledger, workspace_id: str, trigger_id: str, changes: Mapping[str, Any]) -> Trigger:
    """Change some fields of a trigger. Raises InvalidRequest, and NotFound for an unknown trigger or definition."""
    validate_field_names(changes, _FIELDS, "A trigger")
    trigger = await get_trigger(ledger, workspace_id, trigger_id)
    before = {name: getattr(trigger, name) for name in _FIELDS}
    if trigger.definition_id is not None:
        before["graph"] = None  # the record has the name of the definition here
    changed = with_one_target(changes)
    values = await _validate_columns(ledger, workspace_id, NewTrigger(**{**before, **changed}))
    # Only the requested columns are written, so that concurrent changes to other columns are kept.
    await aresolve(ledger.write([Update(Trigger, trigger_id, {name: values[name] for name in changed})]))
    return replace(trigger, **values)


async def remove_trigger(ledger: Ledger, workspace_id: str, trigger_id: str) -> None:
    """Remove a trigger. Runs that it has started continue. Raises NotFound."""
    await get_trigger(ledger, workspace_id, trigger_id)
    await aresolve(ledger.write([Delete(Trigger, where(id=trigger_id, workspace_id=workspace_id))]))


async def _validate_columns(ledger: Ledger, workspace_id: str, new: NewTrigger) -> dict[str, Any]:
    """Validate a requested trigger, and return its columns by name. Raises InvalidRequest and NotFound."""
    match = validate_mapping(new.match, "The match of a trigger")
    _check_paths(match)
    target = await find_target(ledger, workspace_id, new.graph, new.definition_id)
    return {
        "event": validate_string(new.event, "The event of a trigger"),
        "graph": target.graph,
        "definition_id": target.definition_id,
        "match": match,
        "active": validate_bool(new.active, "A trigger's field 'active'"),
    }


def _check_paths(match: Mapping[str, Any]) -> None:
    if len(match) > _MAX_PATHS:
        raise InvalidRequest(f"The match of a trigger has {len(match)} paths; at most {_MAX_PATHS} are allowed.")
    for path in match:
        if "" in path.split("."):
            raise InvalidRequest(f"The path {path!r} in the match of a trigger has an empty part. Write it as 'a.b.0'.")
