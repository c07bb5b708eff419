"""The drawing of a graph, read off what is declared."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from statewright import END, START, Command, StateGraph
from statewright.graph.draw import Drawing, drawing_of
from statewright.graph.draw.shapes import NodeKind

Edges = list[tuple[str, str, str, str]]


def nothing(state: Any) -> None: ...


def built(*nodes: str, entry: str | None = None, name: str | None = None) -> StateGraph:
    graph = StateGraph({"n": int}, name=name)
    for node in nodes:
        graph.add_node(node, nothing)
    return graph.add_edge(START, entry or nodes[0])


def drawn(graph: StateGraph, *, xray: bool | int = False) -> Drawing:
    return drawing_of(graph.compile().graph, xray=xray)


def edges(drawing: Drawing) -> Edges:
    return [(edge.source, edge.target, edge.kind, edge.label) for edge in drawing.edges]


def ids(drawing: Drawing) -> list[str]:
    return [node.id for node in drawing.nodes]


def test_nodes_stand_in_order_of_declaration_between_start_and_end() -> None:
    drawing = drawn(built("c", "a", "b").add_edge("c", "a").add_edge("a", "b"))
    assert [(node.id, node.label) for node in drawing.nodes] == [
        (START, "start"),
        ("c", "c"),
        ("a", "a"),
        ("b", "b"),
        (END, "end"),
    ]


def test_the_drawing_has_the_name_of_the_graph() -> None:
    assert drawn(built("a", name="triage")).name == "triage"


def test_plain_edges_are_read_and_what_leads_nowhere_leads_to_the_end() -> None:
    assert edges(drawn(built("a", "b").add_edge("a", "b"))) == [
        (START, "a", "plain", ""),
        ("a", "b", "plain", ""),
        ("b", END, "plain", ""),
    ]


def test_an_end_to_which_nothing_leads_is_left_out() -> None:
    drawing = drawn(built("a", "b").add_edge("a", "b").add_edge("b", "a"))
    assert ids(drawing) == [START, "a", "b"]


def test_a_self_loop_is_one_edge() -> None:
    graph = built("a").add_edge("a", "a")
    assert edges(drawn(graph)) == [(START, "a", "plain", ""), ("a", "a", "plain", "")]


def test_a_join_is_an_edge_from_each_of_its_starts_and_told_apart() -> None:
    graph = built("a", "b", "c").add_edge(START, "b").add_edge(["a", "b"], "c")
    assert edges(drawn(graph))[2:] == [
        ("a", "c", "join", ""),
        ("b", "c", "join", ""),
        ("c", END, "plain", ""),
    ]


def test_a_conditional_edge_leads_to_each_target_with_what_chooses_it() -> None:
    graph = built("a", "b", "c")
    graph.add_conditional_edges("a", lambda state: "yes", {"yes": "b", True: "c", "c": "c", "done": END})
    assert [edge for edge in edges(drawn(graph)) if edge[0] == "a"] == [
        ("a", "b", "conditional", "yes"),
        ("a", "c", "conditional", "True"),
        ("a", "c", "conditional", ""),
        ("a", END, "conditional", "done"),
    ]


def test_a_literal_return_hint_says_where_a_conditional_edge_leads() -> None:
    def choose(state: Any) -> Literal["b", "__end__"]:
        return "b"

    graph = built("a", "b", "c").add_conditional_edges("a", choose).add_edge("b", "c")
    assert [edge for edge in edges(drawn(graph)) if edge[0] == "a"] == [
        ("a", "b", "conditional", ""),
        ("a", END, "conditional", ""),
    ]


def test_a_conditional_edge_that_says_nothing_may_lead_anywhere() -> None:
    graph = built("a", "b").add_conditional_edges("a", lambda state: "b")
    assert {(target, kind) for source, target, kind, _ in edges(drawn(graph)) if source == "a"} == {
        ("a", "conditional"),
        ("b", "conditional"),
        (END, "conditional"),
    }


def test_a_conditional_entry_is_drawn_from_the_start() -> None:
    graph = StateGraph({"n": int}).add_node("a", nothing).add_node("b", nothing)
    graph.set_conditional_entry_point(lambda state: "a", ["a", "b"])
    assert edges(drawn(graph))[:2] == [(START, "a", "conditional", ""), (START, "b", "conditional", "")]


def test_where_commands_go_is_drawn_if_it_is_declared() -> None:
    graph = built("a").add_node("b", nothing, destinations=["a", END])
    graph.add_edge("a", "b")
    assert [edge for edge in edges(drawn(graph)) if edge[0] == "b"] == [
        ("b", "a", "declared", ""),
        ("b", END, "declared", ""),
    ]


def test_where_commands_go_is_read_off_a_hint_too() -> None:
    def jump(state: Any) -> Command[Literal["c"]]:
        return Command(goto="c")

    graph = built("c", entry="jump").add_node(jump)
    assert ("jump", "c", "declared", "") in edges(drawn(graph))


@pytest.mark.parametrize(
    ("options", "kind"),
    [({}, "node"), ({"join": "idle"}, "waiting"), ({"defer": True}, "waiting"), ({"join": "reachable"}, "waiting")],
)
def test_nodes_that_hold_back_are_told_apart(options: dict[str, Any], kind: NodeKind) -> None:
    graph = built("a").add_node("b", nothing, **options).add_edge("a", "b")
    assert {node.id: node.kind for node in drawn(graph).nodes}["b"] == kind


def nested() -> StateGraph:
    """A graph in a graph in a graph."""
    deep = built("x", name="deep")
    middle = built("m").add_node("deep", deep.compile()).add_edge("m", "deep")
    return built("a").add_node("middle", middle.compile()).add_node("b", nothing).add_sequence(["a", "middle", "b"])


@pytest.mark.parametrize("xray", [False, 0])
def test_a_subgraph_is_one_box_unless_it_is_opened(xray: bool | int) -> None:
    drawing = drawn(nested(), xray=xray)
    assert ids(drawing) == [START, "a", "middle", "b", END]
    assert {node.id: node.kind for node in drawing.nodes}["middle"] == "subgraph"


def test_opened_to_a_depth_what_is_deeper_stays_closed() -> None:
    drawing = drawn(nested(), xray=1)
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
def test_opened_everything_inside_is_shown(xray: bool | int) -> None:
    drawing = drawn(nested(), xray=xray)
    assert "middle:deep:x" in ids(drawing)
    assert not [node for node in drawing.nodes if node.kind == "subgraph"]


@pytest.mark.parametrize("xray", [False, True, 1])
def test_every_edge_leads_from_a_box_to_a_box(xray: bool | int) -> None:
    drawing = drawn(nested(), xray=xray)
    known = set(ids(drawing))
    assert len(known) == len(drawing.nodes)
    assert [edge for edge in drawing.edges if not {edge.source, edge.target} <= known] == []


def test_the_way_leads_through_an_opened_subgraph() -> None:
    ways = {(edge.source, edge.target) for edge in drawn(nested(), xray=1).edges}
    assert {("a", f"middle:{START}"), (f"middle:{START}", "middle:m"), (f"middle:{END}", "b")} <= ways


def test_what_chooses_an_opened_subgraph_is_still_said() -> None:
    inner = built("x")
    graph = built("a").add_node("inner", inner.compile())
    graph.add_conditional_edges("a", lambda state: "go", {"go": "inner", "stop": END})
    assert ("a", f"inner:{START}", "conditional", "go") in edges(drawn(graph, xray=True))


def test_a_compiled_graph_is_drawn_without_being_run() -> None:
    def fail(state: Any) -> None:
        raise AssertionError("it ran")

    graph = StateGraph({"n": int}).add_node("a", fail).add_edge(START, "a")
    graph.add_conditional_edges("a", fail, ["a", END])
    assert "a" in ids(graph.compile().get_graph())


def test_what_a_front_end_calls_unreachable_is_drawn_with_its_arrows_and_is_no_node() -> None:
    graph = StateGraph({"n": int})
    graph.add_node("a", nothing, metadata={"unreachable": {"lost": [("a", "plain", "back"), (END, "plain", "")]}})
    compiled = graph.add_edge(START, "a").compile()
    drawing = drawing_of(compiled.graph)
    assert list(compiled.graph.nodes) == ["a"]
    assert [(node.id, node.label, node.kind) for node in drawing.nodes][2] == (
        "lost",
        "lost (unreachable)",
        "unreachable",
    )
    assert edges(drawing)[2:] == [("lost", "a", "plain", "back"), ("lost", END, "plain", "")]
