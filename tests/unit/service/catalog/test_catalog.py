"""The catalog: graphs by name and by version."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from statewright import END, START, StateGraph
from statewright.agents import Agent
from statewright.errors import InvalidConfig, NotFound, StatewrightError
from statewright.models import ScriptedModel
from statewright.service.catalog.catalog import PROJECT, Catalog, definition_id


def build_graph(*names: str) -> StateGraph:
    graph, before = StateGraph(dict, name="g"), START
    for name in names:
        graph.add_node(name, lambda state: {})
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph


def steps(expression: str = "a") -> dict[str, Any]:
    ends = {"name": "end", "type": "wait", "durationMs": 1}
    choice = {"name": "choose", "type": "condition", "expression": expression, "trueStep": "end", "falseStep": "end"}
    return {"name": "flow", "version": "1", "description": "It flows.", "steps": [choice, ends]}


def test_versions_are_derived_from_the_content() -> None:
    one, same, other = Catalog(), Catalog(), Catalog()
    for catalog, names in ((one, "ab"), (same, "ab"), (other, "abc")):
        catalog.serve("g", build_graph(*names))
    versions = [catalog.require("g").version for catalog in (one, same, other)]
    assert versions[0] == versions[1] != versions[2]
    flows = [Catalog().serve_steps(steps(expression)) for expression in ("a", "a", "b")]
    assert flows[0].definition_id == flows[1].definition_id != flows[2].definition_id
    assert flows[0].version.startswith("1+")


def test_names_are_unique_and_similar_names_are_suggested() -> None:
    catalog = Catalog()
    catalog.serve("report", build_graph("a"))
    with pytest.raises(InvalidConfig, match="Two graphs are served under the name 'report'"):
        catalog.serve("report", build_graph("b"))
    with pytest.raises(NotFound, match="Did you mean 'report'"):
        catalog.require("reprot")
    assert catalog.get("reprot") is None


def test_served_graphs_are_stored_for_all_workspaces(now: datetime) -> None:
    catalog = Catalog()
    catalog.serve("z", build_graph("a"), description="Last.")
    catalog.serve_steps(steps(), name="flow")
    catalog.serve("agent", Agent("a", model=ScriptedModel(["x"]), system="s"))
    stored = catalog.to_records(now)
    assert [(item.name, item.kind, item.workspace_id) for item in stored] == [
        ("agent", "graph", PROJECT),
        ("flow", "steps", PROJECT),
        ("z", "graph", PROJECT),
    ]
    assert [item.body is None for item in stored] == [True, False, True]
    assert all(item.id == definition_id(PROJECT, item.name, item.version) for item in stored)
    assert [served.name for served in catalog.served] == ["agent", "flow", "z"]


def test_a_stored_version_is_compiled_once_from_its_stored_body(now: datetime) -> None:
    old = Catalog()
    old.serve_steps(steps("old"))
    [stored] = old.to_records(now)
    new = Catalog()
    new.serve_steps(steps("new"))
    app = new.load(stored)
    assert app is new.load(stored)
    assert app is not new.require("flow").app
    assert set(app.graph.nodes) >= {"choose", "end"}


def test_code_that_is_not_served_any_more_is_not_found(now: datetime) -> None:
    old = Catalog()
    old.serve("gone", build_graph("a"))
    [stored] = old.to_records(now)
    with pytest.raises(NotFound, match="gone"):
        Catalog().load(stored)


def test_problems_of_a_workflow_are_reported_before_it_is_served() -> None:
    catalog = Catalog()
    with pytest.raises(StatewrightError):
        catalog.serve_steps({"name": "flow", "version": "1", "steps": []})
    with pytest.raises(StatewrightError, match="nobody"):
        catalog.serve_steps(
            {"name": "f", "version": "1", "steps": [{"name": "t", "type": "task", "handler": "nobody"}]}
        )
    assert catalog.served == ()
