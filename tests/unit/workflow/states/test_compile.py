"""Compiling definitions to graphs."""

from typing import Any

import pytest

from statewright.errors import GraphRecursionError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow
from statewright.workflow.states.compile import find_reachable_states, list_destinations
from statewright.workflow.states.engine.routing import find_chain_exits
from statewright.workflow.states.language.model import Definition

TEXT = """
name: flow
recursion_limit: 7
max_concurrency: 3
assistants: [{id: a, system_prompt: p}]
states:
- {id: s, assistant_id: a, next: {condition: {expression: x, then: l, otherwise: end}}}
- {id: l, assistant_id: a, next: {state_id: p, iter_key: xs}}
- {id: p, assistant_id: a, interrupt_before: true, next: {state_id: q, iter_key: xs}}
- {id: q, assistant_id: a, next: {state_ids: [m, end]}}
- {id: m, assistant_id: a, next: {state_id: end}}
- {id: alone, assistant_id: a, next: {state_id: m}}
"""


def definition() -> Definition:
    return load_workflow(TEXT).definition


def list_targets(state_id: str, after: str | None = None) -> list[str]:
    states = definition().states_by_id
    return list_destinations(states[state_id], find_chain_exits(states), after)


def test_a_state_leads_to_its_targets() -> None:
    assert list_targets("s") == ["l"]
    assert list_targets("m") == []


def test_2_6_an_iterating_state_leads_to_the_exit_of_its_chain_too() -> None:
    assert list_targets("l") == ["p", "m"]
    assert list_targets("p", "sum") == ["q", "m", "sum"]


def test_2_9_states_that_lead_to_the_end_lead_to_the_final_summary() -> None:
    assert list_targets("s", "sum") == ["l", "sum"]


def test_states_may_be_named_like_the_final_summary() -> None:
    text = """
enable_summarization_node: true
assistants: [{id: a, system_prompt: p}]
states:
- {id: final_summary, assistant_id: a, next: {state_id: final_summary_}}
- {id: final_summary_, assistant_id: a, next: {state_id: end}}
"""
    result = load_workflow(text).compile(models=ScriptedModel(["one", "two", "in short"])).invoke({"input": "hi"})
    assert result["result"] == "in short"


def test_an_unreachable_state_is_not_a_node() -> None:
    assert find_reachable_states(definition()) == {"s", "l", "p", "q", "m"}
    assert set(load_workflow(TEXT).graph().nodes) == {"s", "l", "p", "q", "m"}


def test_the_graph_has_the_name_of_the_workflow_and_only_states_as_nodes() -> None:
    workflow = load_workflow(TEXT)
    assert workflow.graph().name == "flow"
    app = workflow.compile(script={"s": "{}"})
    node_ids = {node.id for node in app.get_graph().nodes if node.kind == "node"}
    assert node_ids == {"s", "l", "p", "q", "m"}


@pytest.mark.parametrize("form", ["ascii", "mermaid", "dot", "svg"])
def test_an_unreachable_state_is_drawn_and_marked(form: str) -> None:
    drawing = load_workflow(TEXT).compile(script={"s": "{}"}).get_graph()
    assert [(node.id, node.label) for node in drawing.nodes if node.kind == "unreachable"] == [
        ("alone", "alone (unreachable)")
    ]
    assert [edge.target for edge in drawing.edges if edge.source == "alone"] == ["m"]
    assert getattr(drawing, f"draw_{form}")().count("alone (unreachable)") == 1


def test_an_unreachable_state_needs_no_model() -> None:
    text = TEXT.replace("- {id: alone, assistant_id: a,", "- {id: alone, assistant_id: b,")
    text = text.replace("system_prompt: p}]", "system_prompt: p}, {id: b, model: 'nobody:none', system_prompt: p}]")
    app = load_workflow(text).compile(script={"s": "{}"})
    assert app.invoke({"input": "hi"}, thread_id="t")["result"]


def test_1_1_limits_of_the_file_can_be_overridden_by_a_call() -> None:
    outs: dict[str, Any] = {"s": '{"x": 1}', "l": '{"xs": []}', "m": "m"}
    text = TEXT.replace("interrupt_before: true, ", "").replace("recursion_limit: 7", "recursion_limit: 2")
    app = load_workflow(text).compile(script=outs)
    with pytest.raises(GraphRecursionError):
        app.invoke({"input": "hi"})
    assert len(app.invoke({"input": "hi"}, {"recursion_limit": 3})["visits"]) == 3
