"""Lookup of the version that a name or an id refers to."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright import END, START, StateGraph
from statewright.async_futures import adrive, aresolve
from statewright.errors import InvalidRequest, NotFound
from statewright.futures import drive
from statewright.runs import Insert, Ledger, StoredDefinition
from statewright.service.catalog.catalog import Catalog
from statewright.service.catalog.versions import Versions
from statewright.service.context.requests import StartRun

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def stored(record_id: str, now: datetime, **more: Any) -> StoredDefinition:
    fields = {"workspace_id": "w", "name": "flow", "version": record_id, "kind": "steps", "digest": record_id, **more}
    return StoredDefinition(id=record_id, created_at=now, body={}, **fields)


async def versions(ledger: Ledger, now: datetime) -> tuple[Versions, Catalog]:
    graph = StateGraph(dict, name="served")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    catalog = Catalog()
    catalog.serve("served", graph)
    old, new = stored("def_old", now), stored("def_new", now + timedelta(days=1))
    foreign = stored("def_x", now, workspace_id="x", name="secret")
    await aresolve(ledger.write([Insert(item) for item in (new, old, foreign, *catalog.to_records(now))]))
    return Versions(ledger, catalog), catalog


async def test_a_name_refers_to_the_newest_version_and_an_id_to_one_version(ledger: Ledger, now: datetime) -> None:
    result, catalog = await versions(ledger, now)
    assert (await adrive(result.find_newest("w", "flow"))).id == "def_new"
    assert (await adrive(result.find_by_id("w", "def_old"))).version == "def_old"
    assert (await adrive(result.find_newest("anyone", "served"))).id == catalog.require("served").definition_id
    assert (await adrive(result.find_requested("w", StartRun(definition_id="def_old")))).id == "def_old"


async def test_definitions_of_other_workspaces_are_not_found(ledger: Ledger, now: datetime) -> None:
    result, _ = await versions(ledger, now)
    assert (await adrive(result.find_by_id("x", "def_x"))).id == "def_x"
    with pytest.raises(NotFound):
        await adrive(result.find_by_id("w", "def_x"))
    with pytest.raises(NotFound) as caught:
        await adrive(result.find_newest("w", "secrat"))
    assert "secret" not in str(caught.value)
    with pytest.raises(NotFound, match="Did you mean 'flow'"):
        await adrive(result.find_newest("w", "flaw"))


@pytest.mark.parametrize("target", [{}, {"graph": "flow", "definition_id": "def_old"}])
async def test_either_a_graph_or_a_definition_is_required(
    ledger: Ledger, now: datetime, target: dict[str, str]
) -> None:
    result, _ = await versions(ledger, now)
    with pytest.raises(InvalidRequest, match="not both"):
        await adrive(result.find_requested("w", StartRun(**target)))  # type: ignore[arg-type]


async def test_lookups_from_a_worker_thread_find_the_same_version(ledger: Ledger, now: datetime) -> None:
    result, _ = await versions(ledger, now)
    definition = await asyncio.to_thread(lambda: drive(result.find_newest("w", "flow")))
    assert definition.id == "def_new"
    with pytest.raises(NotFound):
        await asyncio.to_thread(lambda: drive(result.find_by_id("w", "nothing")))
