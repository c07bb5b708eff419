"""Graphs made of definitions: what they look like from outside."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from statewright import END, START, InMemorySaver, StateGraph, append
from statewright.errors import InvalidGraph, InvalidUpdateError, WorkflowError
from statewright.workflow.steps import StepsGraph, compile_steps, read_definition

FLOW: dict[str, Any] = {
    "name": "flow",
    "version": "7",
    "steps": [
        {"type": "task", "name": "first step", "handler": "h"},
        {"type": "condition", "name": "good", "expression": "x", "trueStep": "last", "falseStep": "wait"},
        {"type": "wait", "name": "wait", "durationMs": 1},
        {"type": "task", "name": "last", "handler": "h"},
    ],
}


def handler(ctx: Any) -> dict[str, Any]:
    return {"stateUpdates": {"x": ctx.workflow_input.get("x", 1)}}


def compiled(**options: Any) -> StepsGraph:
    return compile_steps(FLOW, handlers={"h": handler}, **options)


@pytest.mark.parametrize("form", [FLOW, json.dumps(FLOW), json.dumps(FLOW).encode(), read_definition(FLOW)])
def test_a_definition_in_any_form(form: Any) -> None:
    app = compile_steps(form, handlers={"h": handler})
    assert app.definition == read_definition(FLOW)
    assert (app.name, app.graph.version) == ("flow", "7")
    assert app.invoke({"x": 2}) == {"x": 2, "__condition_good": True}


def test_bad_definitions_are_refused() -> None:
    with pytest.raises(WorkflowError):
        compile_steps({"name": "flow"})
    with pytest.raises(WorkflowError, match="the workflow 'flow' has 2 problems"):
        compile_steps(FLOW, handlers={})
    with pytest.raises(InvalidGraph, match="nowhere"):
        compiled(interrupt_before=["nowhere"])


@pytest.mark.parametrize("name", ["a:b", "a|b", "__start__", "__end__", "__stop__"])
def test_names_that_the_engine_needs_are_refused(name: str) -> None:
    with pytest.raises(WorkflowError, match="A step cannot be named"):
        read_definition({**FLOW, "steps": [{"type": "wait", "name": name, "durationMs": 1}]})


def test_nodes_say_of_which_type_they_are() -> None:
    nodes = compiled().graph.nodes
    assert {name: node.metadata["step_type"] for name, node in nodes.items()} == {
        "first step": "task", "good": "condition", "wait": "wait", "last": "task",
    }  # fmt: skip


def test_it_is_drawn_as_it_was_written() -> None:
    edges = [(edge.source, edge.target, edge.label) for edge in compiled().get_graph().edges]
    assert edges == [
        (START, "first step", ""),
        ("first step", "good", ""),
        ("good", "last", "x"),
        ("good", "wait", "otherwise"),
        ("wait", "last", ""),
        ("last", END, ""),
    ]


def test_schemas_are_those_of_any_map() -> None:
    app = compiled()
    for schema in (app.get_input_jsonschema(), app.get_output_jsonschema(), app.get_state_jsonschema()):
        assert (schema["type"], schema["properties"]) == ("object", {})


@pytest.mark.parametrize("given", [[], "text", 3, {"a": object()}])
def test_the_input_is_a_map_of_json(given: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="The input of the workflow"):
        compiled().invoke(given)


def test_its_parts_are_streamed_as_the_state_is_shown() -> None:
    parts = list(compiled().stream({}, stream_mode=["updates", "values"]))
    assert parts == [
        ("values", {}),
        ("updates", {"first step": {"x": 1}}),
        ("values", {"x": 1}),
        ("updates", {"good": {"__condition_good": True}}),
        ("values", {"x": 1, "__condition_good": True}),
        ("updates", {"last": {"x": 1}}),
        ("values", {"x": 1, "__condition_good": True}),
    ]


def test_it_stops_at_breakpoints() -> None:
    app = compiled(checkpointer=InMemorySaver(), interrupt_before=["last"])
    assert app.invoke({"x": 2}, thread_id="1") == {"x": 2, "__condition_good": True}
    assert app.get_state(thread_id="1").next == ("last",)
    assert app.invoke(None, thread_id="1") == {"x": 2, "__condition_good": True}


def test_it_is_a_node_of_other_graphs() -> None:
    outer = StateGraph({"x": Any, "state": append})
    app = outer.add_node("flow", compiled()).add_edge(START, "flow").compile()
    result = asyncio.run(app.ainvoke({"x": 5, "state": ["mine"]}))
    assert (result["x"], result["state"]) == (5, ["mine"])
