"""Compiling definitions to graphs, and the interface of these graphs."""

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


def compile_flow(**options: Any) -> StepsGraph:
    return compile_steps(FLOW, handlers={"h": handler}, **options)


@pytest.mark.parametrize("form", [FLOW, json.dumps(FLOW), json.dumps(FLOW).encode(), read_definition(FLOW)])
def test_a_definition_may_be_a_map_json_or_a_model(form: Any) -> None:
    app = compile_steps(form, handlers={"h": handler})
    assert app.definition == read_definition(FLOW)
    assert (app.name, app.graph.version) == ("flow", "7")
    assert app.invoke({"x": 2}) == {"x": 2, "__condition_good": True}


def test_invalid_definitions_are_rejected() -> None:
    with pytest.raises(WorkflowError):
        compile_steps({"name": "flow"})
    with pytest.raises(WorkflowError, match="the workflow 'flow' has 2 problems"):
        compile_steps(FLOW, handlers={})
    with pytest.raises(InvalidGraph, match="nowhere"):
        compile_flow(interrupt_before=["nowhere"])


@pytest.mark.parametrize("name", ["a:b", "a|b", "__start__", "__end__", "__stop__"])
def test_reserved_names_are_rejected(name: str) -> None:
    with pytest.raises(WorkflowError, match="A step cannot be named"):
        read_definition({**FLOW, "steps": [{"type": "wait", "name": name, "durationMs": 1}]})


def test_nodes_have_the_type_of_their_step_in_the_metadata() -> None:
    nodes = compile_flow().graph.nodes
    assert {name: node.metadata["step_type"] for name, node in nodes.items()} == {
        "first step": "task", "good": "condition", "wait": "wait", "last": "task",
    }  # fmt: skip


def test_the_drawing_follows_the_definition() -> None:
    edges = [(edge.source, edge.target, edge.label) for edge in compile_flow().get_graph().edges]
    assert edges == [
        (START, "first step", ""),
        ("first step", "good", ""),
        ("good", "last", "x"),
        ("good", "wait", "otherwise"),
        ("wait", "last", ""),
        ("last", END, ""),
    ]


def test_schemas_describe_any_map() -> None:
    app = compile_flow()
    for schema in (app.get_input_jsonschema(), app.get_output_jsonschema(), app.get_state_jsonschema()):
        assert (schema["type"], schema["properties"]) == ("object", {})


@pytest.mark.parametrize("value", [[], "text", 3, {"a": object()}])
def test_the_input_must_be_a_json_map(value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="The input of the workflow"):
        compile_flow().invoke(value)


def test_updates_and_values_are_streamed_as_plain_state() -> None:
    parts = list(compile_flow().stream({}, stream_mode=["updates", "values"]))
    assert parts == [
        ("values", {}),
        ("updates", {"first step": {"x": 1}}),
        ("values", {"x": 1}),
        ("updates", {"good": {"__condition_good": True}}),
        ("values", {"x": 1, "__condition_good": True}),
        ("updates", {"last": {"x": 1}}),
        ("values", {"x": 1, "__condition_good": True}),
    ]


def test_breakpoints_stop_the_run() -> None:
    app = compile_flow(checkpointer=InMemorySaver(), interrupt_before=["last"])
    assert app.invoke({"x": 2}, thread_id="1") == {"x": 2, "__condition_good": True}
    assert app.get_state(thread_id="1").next == ("last",)
    assert app.invoke(None, thread_id="1") == {"x": 2, "__condition_good": True}


def test_a_compiled_definition_can_be_a_node_of_another_graph() -> None:
    outer = StateGraph({"x": Any, "state": append})
    app = outer.add_node("flow", compile_flow()).add_edge(START, "flow").compile()
    result = asyncio.run(app.ainvoke({"x": 5, "state": ["mine"]}))
    assert (result["x"], result["state"]) == (5, ["mine"])
