"""The drawing of a graph, read from its declarations."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from statewright import END, START, Command, StateGraph
from statewright.graph.draw import Drawing, drawing_of
from statewright.graph.draw.shapes import NodeKind

Edges = list[tuple[str, str, str, str]]


def no_op(state: Any) -> None: ...


def graph_of(*nodes: str, entry: str | None = None, name: str | None = None) -> StateGraph:
    graph = StateGraph({"n": int}, name=name)
    for node in nodes:
        graph.add_node(node, no_op)
    return graph.add_edge(START, entry or nodes[0])


def draw(graph: StateGraph, *, xray: bool | int = False) -> Drawing:
    return drawing_of(graph.compile().graph, xray=xray)


def edges(drawing: Drawing) -> Edges:
    return [(edge.source, edge.target, edge.kind, edge.label) for edge in drawing.edges]


def ids(drawing: Drawing) -> list[str]:
    return [node.id for node in drawing.nodes]


def test_nodes_are_in_order_of_declaration_between_start_and_end() -> None:
    drawing = draw(graph_of("c", "a", "b").add_edge("c", "a").add_edge("a", "b"))
    assert [(node.id, node.label) for node in drawing.nodes] == [
        (START, "start"),
        ("c", "c"),
        ("a", "a"),
        ("b", "b"),
        (END, "end"),
    ]


def test_the_drawing_has_the_name_of_the_graph() -> None:
    assert draw(graph_of("a", name="triage")).name == "triage"


def test_nodes_without_edges_have_an_edge_to_the_end() -> None:
    assert edges(draw(graph_of("a", "b").add_edge("a", "b"))) == [
        (START, "a", "plain", ""),
        ("a", "b", "plain", ""),
        ("b", END, "plain", ""),
    ]


def test_an_unreachable_end_is_omitted() -> None:
    drawing = draw(graph_of("a", "b").add_edge("a", "b").add_edge("b", "a"))
    assert ids(drawing) == [START, "a", "b"]


def test_a_self_loop_is_one_edge() -> None:
    graph = graph_of("a").add_edge("a", "a")
    assert edges(draw(graph)) == [(START, "a", "plain", ""), ("a", "a", "plain", "")]


def test_a_join_has_an_edge_of_its_own_kind_from_each_start() -> None:
    graph = graph_of("a", "b", "c").add_edge(START, "b").add_edge(["a", "b"], "c")
    assert edges(draw(graph))[2:] == [
        ("a", "c", "join", ""),
        ("b", "c", "join", ""),
        ("c", END, "plain", ""),
    ]


def test_a_conditional_edge_has_an_edge_for_each_target_with_its_choice() -> None:
    graph = graph_of("a", "b", "c")
    graph.add_conditional_edges("a", lambda state: "yes", {"yes": "b", True: "c", "c": "c", "done": END})
    assert [edge for edge in edges(draw(graph)) if edge[0] == "a"] == [
        ("a", "b", "conditional", "yes"),
        ("a", "c", "conditional", "True"),
        ("a", "c", "conditional", ""),
        ("a", END, "conditional", "done"),
    ]


def test_a_literal_return_type_has_the_targets_of_a_conditional_edge() -> None:
    def choose(state: Any) -> Literal["b", "__end__"]:
        return "b"

    graph = graph_of("a", "b", "c").add_conditional_edges("a", choose).add_edge("b", "c")
    assert [edge for edge in edges(draw(graph)) if edge[0] == "a"] == [
        ("a", "b", "conditional", ""),
        ("a", END, "conditional", ""),
    ]


def test_a_conditional_edge_without_targets_leads_to_all_nodes() -> None:
    graph = graph_of("a", "b").add_conditional_edges("a", lambda state: "b")
    assert {(target, kind) for source, target, kind, _ in edges(draw(graph)) if source == "a"} == {
        ("a", "conditional"),
        ("b", "conditional"),
        (END, "conditional"),
    }


def test_a_conditional_entry_point_leads_from_the_start() -> None:
    graph = StateGraph({"n": int}).add_node("a", no_op).add_node("b", no_op)
    graph.set_conditional_entry_point(lambda state: "a", ["a", "b"])
    assert edges(draw(graph))[:2] == [(START, "a", "conditional", ""), (START, "b", "conditional", "")]


def test_declared_destinations_are_edges() -> None:
    graph = graph_of("a").add_node("b", no_op, destinations=["a", END])
    graph.add_edge("a", "b")
    assert [edge for edge in edges(draw(graph)) if edge[0] == "b"] == [
        ("b", "a", "declared", ""),
        ("b", END, "declared", ""),
    ]


def test_destinations_of_a_return_type_are_edges() -> None:
    def jump(state: Any) -> Command[Literal["c"]]:
        return Command(goto="c")

    graph = graph_of("c", entry="jump").add_node(jump)
    assert ("jump", "c", "declared", "") in edges(draw(graph))


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, "node"), ({"join": "idle"}, "waiting"), ({"defer": True}, "waiting"), ({"join": "reachable"}, "waiting")],
)
def test_nodes_that_wait_have_their_own_kind(options: dict[str, Any], kind: NodeKind) -> None:
    graph = graph_of("a").add_node("b", no_op, **options).add_edge("a", "b")
    assert {node.id: node.kind for node in draw(graph).nodes}["b"] == kind


def nested() -> StateGraph:
    """Return a graph with a subgraph that has a subgraph."""
    deep = graph_of("x", name="deep")
    middle = graph_of("m").add_node("deep", deep.compile()).add_edge("m", "deep")
    return graph_of("a").add_node("middle", middle.compile()).add_node("b", no_op).add_sequence(["a", "middle", "b"])


@pytest.mark.parametrize("xray", [False, 0])
def test_a_subgraph_is_one_node_by_default(xray: bool | int) -> None:
    drawing = draw(nested(), xray=xray)
    assert ids(drawing) == [START, "a", "middle", "b", END]
    assert {node.id: node.kind for node in drawing.nodes}["middle"] == "subgraph"


def test_xray_with_a_depth_opens_subgraphs_to_that_depth() -> None:
    drawing = draw(nested(), xray=1)
    assert ids(drawing) == [
        START,
        "a",
        f"middle:{START}",
        "middle:m",
        "middle:deep",
        f"middle:{END}",
        "b",
        END,
    ]
    assert {node.id: node.kind for node in drawing.nodes}["middle:deep"] == "subgraph"


@pytest.mark.parametrize("xray", [True, 2, 5])
def test_xray_opens_all_subgraphs(xray: bool | int) -> None:
    drawing = draw(nested(), xray=xray)
    assert "middle:deep:x" in ids(drawing)
    assert not [node for node in drawing.nodes if node.kind == "subgraph"]


@pytest.mark.parametrize("xray", [False, True, 1])
def test_every_edge_connects_drawn_nodes(xray: bool | int) -> None:
    drawing = draw(nested(), xray=xray)
    node_ids = set(ids(drawing))
    assert len(node_ids) == len(drawing.nodes)
    assert [edge for edge in drawing.edges if not {edge.source, edge.target} <= node_ids] == []


def test_edges_lead_through_an_opened_subgraph() -> None:
    ends = {(edge.source, edge.target) for edge in draw(nested(), xray=1).edges}
    assert {("a", f"middle:{START}"), (f"middle:{START}", "middle:m"), (f"middle:{END}", "b")} <= ends


def test_the_edge_to_an_opened_subgraph_keeps_its_label() -> None:
    inner = graph_of("x")
    graph = graph_of("a").add_node("inner", inner.compile())
    graph.add_conditional_edges("a", lambda state: "go", {"go": "inner", "stop": END})
    assert ("a", f"inner:{START}", "conditional", "go") in edges(draw(graph, xray=True))


def test_drawing_a_graph_does_not_run_it() -> None:
    def fail(state: Any) -> None:
        raise AssertionError("called")

    graph = StateGraph({"n": int}).add_node("a", fail).add_edge(START, "a")
    graph.add_conditional_edges("a", fail, ["a", END])
    assert "a" in ids(graph.compile().get_graph())


def test_unreachable_nodes_of_the_metadata_are_drawn_with_their_edges() -> None:
    graph = StateGraph({"n": int})
    graph.add_node("a", no_op, metadata={"unreachable": {"lost": [("a", "plain", "back"), (END, "plain", "")]}})
    compiled = graph.add_edge(START, "a").compile()
    drawing = drawing_of(compiled.graph)
    assert list(compiled.graph.nodes) == ["a"]
    assert [(node.id, node.label, node.kind) for node in drawing.nodes][2] == (
        "lost",
        "lost (unreachable)",
        "unreachable",
    )
    assert edges(drawing)[2:] == [("lost", "a", "plain", "back"), ("lost", END, "plain", "")]
