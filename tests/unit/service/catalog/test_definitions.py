"""Stored versions of workflows, and descriptions of graphs."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import END, START, StateGraph
from statewright.checkpoint import Checkpointer
from statewright.errors import NotFound, RequestConflict, WorkflowError
from statewright.runs import Insert, Ledger
from statewright.service.catalog.catalog import Catalog
from statewright.service.catalog.definitions import DefinitionOperations
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


def body(version: str = "1", seconds: int = 1, **more: Any) -> dict[str, Any]:
    nap = {"name": "nap", "type": "wait", "durationMs": seconds * 1000}
    return {"name": "flow", "version": version, "steps": [nap], **more}


def definitions(context: ServiceContext) -> DefinitionOperations:
    return DefinitionOperations(context)


async def test_a_version_is_stored_once_and_never_changes(context: ServiceContext) -> None:
    book = definitions(context)
    first, again = await book.add_definition("default", body()), await book.add_definition("default", body())
    assert (first.created, again.created) == (True, False)
    assert first.definition.id == again.definition.id
    with pytest.raises(RequestConflict, match="another version") as caught:
        await book.add_definition("default", body(seconds=2))
    assert caught.value.details == {"definitionId": first.definition.id}
    newer = await book.add_definition("default", body("2", seconds=2))
    assert newer.definition.id != first.definition.id
    assert (await book.definitions("default", page=1, page_size=10)).total == 2
    assert (await book.definition("default", first.definition.id)).body == first.definition.body


async def test_workspaces_have_their_own(context: ServiceContext) -> None:
    book = definitions(context)
    one, other = await book.add_definition("default", body()), await book.add_definition("other", body(seconds=5))
    assert one.definition.id != other.definition.id
    with pytest.raises(NotFound):
        await book.definition("default", other.definition.id)
    assert (await book.definitions("nobody", page=1, page_size=10)).total == 0
    assert [graph.definition_id for graph in await book.graphs("other")] == [other.definition.id]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"steps": []},
        {"name": ""},
        {"steps": [{"name": "t", "type": "task", "handler": "nobody"}]},
        {"steps": [{"name": "c", "type": "condition", "expression": "a", "trueStep": "x", "falseStep": "c"}]},
    ],
)
async def test_invalid_definitions_are_not_stored(context: ServiceContext, wrong: dict[str, Any]) -> None:
    book = definitions(context)
    with pytest.raises(WorkflowError) as caught:
        await book.add_definition("default", {**body(), **wrong} if wrong else {})
    assert caught.value.problems
    assert (await book.definitions("default", page=1, page_size=10)).total == 0


async def test_served_graphs_are_described_and_precede_stored_ones(context: ServiceContext) -> None:
    graph = StateGraph(dict, name="flow")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    context.catalog.serve("flow", graph, description="It flows.")
    await context.write([Insert(item) for item in context.catalog.to_records(context.now())])
    book = definitions(context)
    await book.add_definition("default", body())
    await book.add_definition("default", {**body(), "name": "another"})
    shown = await book.graphs("default")
    assert [(item.name, item.kind, item.description) for item in shown] == [
        ("another", "steps", ""),
        ("flow", "graph", "It flows."),
    ]
    result = await book.graph("default", "flow")
    assert result.served.kind == "graph"
    assert "one" in result.mermaid
    assert "one" in {node["id"] for node in result.nodes}
    assert result.edges
    with pytest.raises(NotFound, match="Did you mean 'flow'"):
        await book.graph("default", "flwo")
