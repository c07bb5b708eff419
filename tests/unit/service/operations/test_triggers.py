"""Triggers: matching of events, the runs that they start, and their records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import InvalidRequest, NotFound
from statewright.runs import Insert, Ledger, StoredDefinition, Trigger
from statewright.service.context.requests import StartRun
from statewright.service.operations.triggers import (
    NewTrigger,
    add_trigger,
    change_trigger,
    count_triggers,
    get_trigger,
    list_triggers,
    matching_triggers,
    remove_trigger,
    runs_of_event,
)

PAID = NewTrigger(event="order.paid", graph="ship", match={"order.kind": "gift"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def trigger(match: Mapping[str, Any] | None = None, **values: Any) -> Trigger:
    given = {"id": "trg_1", "event": "paid", "graph": "ship", **values}
    return Trigger(workspace_id="default", match=match or {}, created_at=datetime(2026, 1, 1, tzinfo=UTC), **given)


# -- which are set off


@pytest.mark.parametrize(
    ("match", "payload", "fits"),
    [
        ({}, None, True),
        ({}, [1], True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a.b": 1}, {"a": {"b": 1}}, True),
        ({"a.b": 1}, {"a.b": 1}, False),
        ({"a.b": 1}, {"a": "b"}, False),
        ({"a.b": 1}, None, False),
        ({"a.0.b": 1}, {"a": [{"b": 1}]}, True),
        ({"a.0": 1}, {"a": {"0": 1}}, True),
        ({"a.1": 1}, {"a": [1]}, False),
        ({"a.-1": 1}, {"a": [1]}, False),
        ({"a.²": 1}, {"a": [0, 0, 1]}, False),
        ({"a." + "9" * 5000: 1}, {"a": [1]}, False),
        ({"a": {"b": [1]}}, {"a": {"b": [1]}}, True),
        ({"a": {"b": [1]}}, {"a": {"b": [True]}}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ],
)
def test_the_payload_must_match(match: Mapping[str, Any], payload: Any, fits: bool) -> None:
    assert bool(matching_triggers([trigger(match)], "paid", payload)) == fits


@given(JSON)
def test_every_value_equals_itself(value: Any) -> None:
    assert matching_triggers([trigger({"a": value})], "paid", {"a": value})


def test_other_events_and_inactive_triggers_do_not_match() -> None:
    several = [trigger(id="1"), trigger(id="2", event="Paid"), trigger(id="3", active=False), trigger(id="4")]
    assert [item.id for item in matching_triggers(several, "paid", {})] == ["1", "4"]


def test_an_event_starts_a_run_for_each_trigger() -> None:
    several = [trigger(id="trg_1"), trigger(id="trg_2", definition_id="def_1")]
    assert runs_of_event(several, "evt_7", "paid", {"n": 1}) == [
        StartRun(graph="ship", input={"n": 1}, idempotency_key="event:evt_7:trg_1", source="event:evt_7"),
        StartRun(definition_id="def_1", input={"n": 1}, idempotency_key="event:evt_7:trg_2", source="event:evt_7"),
    ]


# -- those of a workspace


def add(ledger: Ledger, now: datetime, workspace: str = "default", **changes: Any) -> Trigger:
    return asyncio.run(add_trigger(ledger, workspace, replace(PAID, **changes), now))


def change(ledger: Ledger, one: Trigger, changes: Mapping[str, Any]) -> Trigger:
    return asyncio.run(change_trigger(ledger, "default", one.id, changes))


def test_an_added_trigger_is_stored(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    assert (added.event, added.graph, added.match, added.active) == ("order.paid", "ship", {"order.kind": "gift"}, True)
    assert asyncio.run(get_trigger(ledger, "default", added.id)) == added


def test_triggers_are_listed_by_event_in_pages(ledger: Ledger, now: datetime) -> None:
    first, second = add(ledger, now), add(ledger, now, event="order.sent")
    add(ledger, now, workspace="other")
    assert asyncio.run(list_triggers(ledger, "default")) == [first, second]
    assert asyncio.run(list_triggers(ledger, "default", event="order.sent")) == [second]
    assert asyncio.run(list_triggers(ledger, "default", limit=1, offset=1)) == [second]
    assert asyncio.run(count_triggers(ledger, "default")) == 2


def test_records_of_other_workspaces_are_not_found(ledger: Ledger, now: datetime) -> None:
    theirs = add(ledger, now, workspace="other")
    for call in (
        get_trigger(ledger, "default", theirs.id),
        change_trigger(ledger, "default", theirs.id, {"active": False}),
        remove_trigger(ledger, "default", theirs.id),
    ):
        with pytest.raises(NotFound, match=theirs.id):
            asyncio.run(call)
    assert asyncio.run(get_trigger(ledger, "other", theirs.id)) == theirs


def test_a_change_keeps_other_fields(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    assert change(ledger, added, {"active": False}) == replace(added, active=False)
    assert change(ledger, added, {"match": {}}) == replace(added, active=False, match={})
    assert asyncio.run(get_trigger(ledger, "default", added.id)) == replace(added, active=False, match={})


def test_a_graph_replaces_a_definition_and_the_reverse(ledger: Ledger, ask: Callable[..., Any], now: datetime) -> None:
    stored = StoredDefinition(
        id="def_1", workspace_id="default", name="send", version="1", kind="steps", digest="d", created_at=now
    )
    ask(lambda: ledger.write([Insert(stored)]))
    added = add(ledger, now)
    by_version = change(ledger, added, {"definition_id": "def_1"})
    assert (by_version.graph, by_version.definition_id) == ("send", "def_1")
    assert change(ledger, by_version, {"event": "x"}).definition_id == "def_1"
    by_name = change(ledger, by_version, {"graph": "ship"})
    assert (by_name.graph, by_name.definition_id) == ("ship", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"event": ""}, "1 to 200 characters"),
        ({"match": []}, "must be an object"),
        ({"match": {"a..b": 1}}, "'a..b'"),
        ({"match": {f"p{number}": 1 for number in range(51)}}, "has 51 paths"),
        ({"active": "yes"}, "true or false"),
        ({"graph": None}, "graph or definitionId"),
        ({"graph": "g", "definition_id": "d"}, "not both"),
        ({"evnt": "x"}, "Did you mean 'event'"),
    ],
)
def test_invalid_triggers_are_refused(ledger: Ledger, now: datetime, changes: Mapping[str, Any], message: str) -> None:
    added = add(ledger, now)
    with pytest.raises(InvalidRequest) as caught:
        change(ledger, added, changes)
    assert message in str(caught.value)
    assert asyncio.run(list_triggers(ledger, "default")) == [added]


def test_removed_records_are_not_found(ledger: Ledger, now: datetime) -> None:
    added = add(ledger, now)
    asyncio.run(remove_trigger(ledger, "default", added.id))
    assert asyncio.run(list_triggers(ledger, "default")) == []
    with pytest.raises(NotFound):
        asyncio.run(remove_trigger(ledger, "default", added.id))
