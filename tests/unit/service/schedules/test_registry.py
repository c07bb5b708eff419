"""The schedules of a workspace: creation, changes and removal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.errors import InvalidRequest, NotFound, RequestConflict
from statewright.runs import Insert, Ledger, Schedule, StoredDefinition
from statewright.service.schedules import (
    NewSchedule,
    add_schedule,
    change_schedule,
    count_schedules,
    get_schedule,
    list_schedules,
    pause_schedule,
    preview,
    remove_schedule,
    resume_schedule,
)

DAILY = NewSchedule(
    name="daily", cron="0 18 * * *", graph="report", input={"n": [1]}, tags=["a", "a"], metadata={"b": 1}
)


def add(ledger: Ledger, now: datetime, workspace: str = "default", **changes: Any) -> Schedule:
    return asyncio.run(add_schedule(ledger, workspace, replace(DAILY, **changes), now))


def change(ledger: Ledger, schedule: Schedule, changes: Mapping[str, Any], now: datetime) -> Schedule:
    return asyncio.run(change_schedule(ledger, schedule.workspace_id, schedule.id, changes, now))


def get(ledger: Ledger, schedule: Schedule, workspace: str = "default") -> Schedule:
    return asyncio.run(get_schedule(ledger, workspace, schedule.id))


def define(ledger: Ledger, now: datetime, workspace: str) -> None:
    stored = StoredDefinition(
        id="def_1", workspace_id=workspace, name="outreach", version="1", kind="steps", digest="d", created_at=now
    )

    async def write() -> None:
        await aresolve(ledger.write([Insert(stored)]))

    asyncio.run(write())


def test_an_added_schedule_has_its_next_time(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    assert added.next_at == now + timedelta(hours=6)
    assert (added.graph, added.definition_id, added.input) == ("report", None, {"n": [1]})
    assert (added.tags, added.metadata, added.paused, added.version) == (["a"], {"b": 1}, False, 1)
    assert get(ledger, added) == added


def test_a_schedule_added_paused_has_no_next_time(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now, paused=True)
    assert added.next_at is None
    assert asyncio.run(resume_schedule(ledger, "default", added.id, now)).next_at == now + timedelta(hours=6)


def test_names_are_unique_in_a_workspace(ledger: Ledger, now: datetime) -> None:
    add(ledger, now)
    add(ledger, now, workspace="other")
    with pytest.raises(RequestConflict, match="A schedule named 'daily' already exists"):
        add(ledger, now)


def test_schedules_are_listed_by_name_in_pages(ledger: Ledger, now: datetime) -> None:
    for name in ("c", "a", "b"):
        add(ledger, now, name=name)
    add(ledger, now, workspace="other")
    assert [schedule.name for schedule in asyncio.run(list_schedules(ledger, "default"))] == ["a", "b", "c"]
    assert [schedule.name for schedule in asyncio.run(list_schedules(ledger, "default", limit=1, offset=1))] == ["b"]
    assert asyncio.run(count_schedules(ledger, "default")) == 3


@pytest.mark.parametrize("record_id", ["sch_none", "", "\x00"])
def test_missing_records_are_not_found(ledger: Ledger, now: datetime, record_id: str) -> None:
    for call in (
        get_schedule(ledger, "default", record_id),
        change_schedule(ledger, "default", record_id, {"name": "x"}, now),
        pause_schedule(ledger, "default", record_id, now),
        remove_schedule(ledger, "default", record_id),
    ):
        with pytest.raises(NotFound):
            asyncio.run(call)


def test_records_of_other_workspaces_are_not_found(ledger: Ledger, now: datetime) -> None:
    theirs = add(ledger, now, workspace="other")
    for call in (
        get_schedule(ledger, "default", theirs.id),
        change_schedule(ledger, "default", theirs.id, {"name": "x"}, now),
        remove_schedule(ledger, "default", theirs.id),
    ):
        with pytest.raises(NotFound):
            asyncio.run(call)
    assert get(ledger, theirs, "other") == theirs


def test_a_change_keeps_other_fields(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    later = now + timedelta(days=3)
    changed = change(ledger, added, {"overlap": "allow", "name": "evening", "input": None}, later)
    assert changed == replace(added, overlap="allow", name="evening", input=None, version=2)
    assert get(ledger, added) == changed


@pytest.mark.parametrize(
    ("changes", "hours"), [({"cron": "0 15 * * *"}, 3), ({"timezone": "Europe/Berlin"}, 5), ({"timezone": "UTC"}, 6)]
)
def test_a_changed_cron_expression_changes_the_next_time(
    ledger: Ledger, now: datetime, changes: Mapping[str, str], hours: int
) -> None:
    assert change(ledger, add(ledger, now), changes, now).next_at == now + timedelta(hours=hours)


def test_a_resumed_schedule_has_the_first_time_after_the_pause(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    paused = asyncio.run(pause_schedule(ledger, "default", added.id, now))
    assert (paused.paused, paused.next_at) == (True, None)
    later = now + timedelta(days=30)
    resumed = asyncio.run(resume_schedule(ledger, "default", added.id, later))
    assert resumed.next_at == later + timedelta(hours=6)


def test_resuming_an_active_schedule_changes_nothing(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    late = now + timedelta(days=2)
    assert asyncio.run(resume_schedule(ledger, "default", added.id, late)).next_at == added.next_at


def test_a_schedule_of_a_definition_has_the_name_of_its_graph(ledger: Ledger, now: datetime) -> None:
    define(ledger, now, "default")
    added = add(ledger, now, graph=None, definition_id="def_1")
    assert (added.graph, added.definition_id) == ("outreach", "def_1")
    assert change(ledger, added, {"overlap": "allow"}, now).definition_id == "def_1"
    back = change(ledger, added, {"graph": "report"}, now)
    assert (back.graph, back.definition_id) == ("report", None)
    again = change(ledger, added, {"definition_id": "def_1"}, now)
    assert (again.graph, again.definition_id) == ("outreach", "def_1")


def test_served_graphs_can_be_named_by_their_version(ledger: Ledger, now: datetime) -> None:
    define(ledger, now, "")
    assert add(ledger, now, graph=None, definition_id="def_1").definition_id == "def_1"


def test_definitions_of_other_workspaces_cannot_be_scheduled(ledger: Ledger, now: datetime) -> None:
    define(ledger, now, "other")
    with pytest.raises(NotFound, match="Definition 'def_1' does not exist"):
        add(ledger, now, graph=None, definition_id="def_1")


@pytest.mark.parametrize("target", [{"graph": None}, {"definition_id": "def_1"}])
def test_either_a_graph_or_a_definition_is_run(ledger: Ledger, now: datetime, target: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="graph or definitionId"):
        add(ledger, now, **target)


def test_an_expression_that_is_never_due_is_refused(ledger: Ledger, now: datetime) -> None:
    with pytest.raises(InvalidRequest, match="matches no time"):
        add(ledger, now, cron="0 0 */29 2 MON#5")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crn": "x"}, "Did you mean 'cron'"),
        ({"id": "x"}, "no field 'id'"),
        ({"next_at": None}, "no field 'next_at'"),
        ({"cron": "nope"}, "fields"),
        ({"graph": "g", "definition_id": "d"}, "not both"),
    ],
)
def test_an_invalid_change_changes_nothing(
    ledger: Ledger, now: datetime, changes: Mapping[str, Any], message: str
) -> None:
    added = add(ledger, now)
    with pytest.raises(InvalidRequest) as caught:
        change(ledger, added, changes, now)
    assert message in str(caught.value)
    assert get(ledger, added) == added


def test_a_change_to_a_name_in_use_is_refused(ledger: Ledger, now: datetime) -> None:
    add(ledger, now)
    other = add(ledger, now, name="other")
    with pytest.raises(RequestConflict, match="'daily'"):
        change(ledger, other, {"name": "daily"}, now)


def test_concurrent_changes_are_all_made(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)

    async def all_at_once() -> None:
        await asyncio.gather(
            change_schedule(ledger, "default", added.id, {"overlap": "allow"}, now),
            change_schedule(ledger, "default", added.id, {"catch_up": "all"}, now),
            change_schedule(ledger, "default", added.id, {"paused": True}, now),
        )

    asyncio.run(all_at_once())
    result = get(ledger, added)
    assert (result.overlap, result.catch_up, result.paused, result.version) == ("allow", "all", True, 4)


def test_removed_records_are_not_found(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    asyncio.run(remove_schedule(ledger, "default", added.id))
    assert asyncio.run(list_schedules(ledger, "default")) == []
    assert add(ledger, now).name == "daily"


def test_a_preview_shows_the_next_times(ledger: Ledger, now: datetime) -> None:
    expected = [now + timedelta(hours=6), now + timedelta(hours=30)]
    assert preview(DAILY, 2, now) == preview(add(ledger, now, paused=True), 2, now) == expected
    assert len(preview(DAILY, 100, now)) == 100


@pytest.mark.parametrize("count", [0, -1, 101])
def test_a_preview_is_bounded(now: datetime, count: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 100"):
        preview(DAILY, count, now)
