"""Building and freezing a graph."""

from dataclasses import FrozenInstanceError, dataclass
from functools import partial
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from statewright import END, START, Command, GraphBuilder, StateGraph, append
from statewright.graph import JoinEdge, SubgraphLike


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    x: int


class Private(TypedDict):
    draft: str


@dataclass
class Data:
    x: int = 0


class Model(BaseModel):
    x: int = 0


def nothing(state: Any) -> None: ...


def reads_private(state: Private) -> None: ...


def reads_data(state: Data) -> None: ...


def reads_model(state: Model) -> None: ...


def builder() -> GraphBuilder:
    return GraphBuilder(State).add_node("a", nothing).add_node("b", nothing).add_edge(START, "a").add_edge("a", "b")


def test_every_method_returns_the_builder() -> None:
    graph = GraphBuilder()

    assert graph.set_schema(State) is graph
    assert graph.add_node("a", nothing) is graph
    assert graph.add_edge("a", "a") is graph
    assert graph.add_conditional_edges("a", nothing, ["a"]) is graph
    assert graph.add_sequence([("b", nothing)]) is graph
    assert graph.set_entry_point("a") is graph
    assert graph.set_finish_point("a") is graph
    assert graph.set_conditional_entry_point(nothing, ["a"]) is graph


class Callable_:  # noqa: N801
    def __call__(self, state: Any) -> None: ...


def test_a_node_without_a_name_is_named_after_its_action() -> None:
    graph = GraphBuilder().add_node(nothing).add_node(Callable_()).add_node(lambda s: None)
    graph.add_node(StateGraph(State, name="Sub").add_node("a", nothing).add_edge(START, "a").compile())

    assert list(graph.nodes) == ["nothing", "Callable_", "<lambda>", "Sub"]


def test_a_partial_can_be_a_named_node() -> None:
    assert list(GraphBuilder().add_node("p", partial(nothing)).nodes) == ["p"]


def test_a_node_has_the_options_of_add_node() -> None:
    graph = builder().add_node(
        "n", "described", nothing, tags=["t"], version="2", metadata={"k": 1}, on=["x"], inline=True, destinations=["a"]
    )

    node = graph.nodes["n"]
    assert (node.description, node.tags, node.version, node.metadata) == ("described", ("t",), "2", {"k": 1})
    assert (node.on, node.inline, node.destinations, node.join, node.memory) == (("x",), True, ("a",), "any", "call")


def test_nodes_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        builder().nodes["a"].join = "idle"  # type: ignore[misc]


@pytest.mark.parametrize("function", [reads_private, reads_data, reads_model])
def test_the_input_schema_of_a_node_is_its_type_hint(function: Any) -> None:
    graph = builder().add_node("n", function).add_edge("b", "n").freeze()

    assert graph.node_schemas["n"].source is function.__annotations__["state"]


def test_the_option_input_schema_wins_over_the_type_hint() -> None:
    graph = builder().add_node("n", reads_data, input_schema=Private).add_edge("b", "n").freeze()

    assert graph.node_schemas["n"].source is Private
    assert set(graph.fields) == {"log", "x", "draft"}


def test_a_type_hint_that_is_not_a_schema_is_ignored() -> None:
    def node(state: dict[str, Any]) -> None: ...

    assert builder().add_node(node).nodes["node"].input_schema is None


def test_edges_are_unique_and_in_order() -> None:
    graph = builder().add_edge("a", END).add_edge("a", "b").freeze()

    assert graph.edges["a"] == ("b", END)


def test_a_join_has_each_start_once() -> None:
    graph = builder().add_edge(["a", "b", "a"], END).add_edge(("a", "b"), END).freeze()

    assert graph.joins == (JoinEdge(("a", "b"), END),)
    assert graph.joins_by_start == {"a": graph.joins, "b": graph.joins}


def test_a_sequence_can_mix_names_functions_and_pairs() -> None:
    graph = builder().add_sequence(["b", ("c", nothing), Callable_(), nothing])

    assert {start: list(ends) for start, ends in graph.edges.items()} == {
        START: ["a"],
        "a": ["b"],
        "b": ["c"],
        "c": ["Callable_"],
        "Callable_": ["nothing"],
    }


def test_targets_of_a_branch_come_from_a_map_a_list_or_a_type_hint() -> None:
    def hinted(state: Any) -> Literal["a", "b"]:
        return "a"

    graph = (
        builder().add_conditional_edges("b", nothing, {1: "a", None: END}).add_conditional_edges("b", nothing, ["a"])
    )
    graph.add_conditional_edges("b", hinted).add_conditional_edges("b", nothing)

    assert [branch.targets for branch in graph.branches["b"]] == [
        {1: "a", None: END},
        {"a": "a"},
        {"a": "a", "b": "b"},
        None,
    ]
    assert [branch.name for branch in graph.branches["b"]] == ["nothing", "nothing", "hinted", "nothing"]


def test_a_builder_can_be_extended_and_frozen_again() -> None:
    graph = builder()
    first = graph.freeze()
    graph.add_node("c", nothing).add_edge("b", "c")
    second = graph.freeze()

    assert list(first.nodes) == ["a", "b"]
    assert list(second.nodes) == ["a", "b", "c"]
    assert first.edges == {START: ("a",), "a": ("b",)}


def test_a_frozen_graph_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        builder().freeze().name = "other"  # type: ignore[misc]


def test_freeze_can_rename_a_graph() -> None:
    assert builder().freeze().name == "Graph"
    assert builder().freeze(name="Renamed").name == "Renamed"
    assert GraphBuilder(State, name="Named").add_node("a", nothing).add_edge(START, "a").freeze().name == "Named"


def test_successors_are_the_declared_targets_or_all_nodes() -> None:
    def anywhere(state: Any) -> Command:
        return Command()

    graph = builder().add_node("c", nothing, destinations=["b", END]).add_node("d", anywhere).add_node("e", nothing)
    graph.add_edge(["a", "c"], "d").add_edge("b", "c").add_conditional_edges("c", nothing, {"x": "a", "y": END})
    graph.add_conditional_edges("e", nothing).add_edge("d", "e")
    successors = graph.freeze().successors

    assert successors[START] == {"a"}
    assert successors["a"] == {"b", "d"}
    assert successors["b"] == {"c"}
    assert successors["c"] == {"a", "b", "d"}
    assert successors["d"] == successors["e"] == {"a", "b", "c", "d", "e"}


def test_order_is_the_order_of_declaration() -> None:
    assert builder().freeze().order == {"a": 0, "b": 1}


def test_a_compiled_graph_is_a_subgraph_and_a_function_is_not() -> None:
    app = StateGraph(State).add_node("a", nothing).add_edge(START, "a").compile()

    assert isinstance(app, SubgraphLike)
    assert not isinstance(nothing, SubgraphLike)
    assert GraphBuilder().add_node("s", app).nodes["s"].is_subgraph
    assert not builder().nodes["a"].is_subgraph


def test_a_graph_without_a_schema_is_an_open_dict() -> None:
    graph = GraphBuilder().add_node("a", nothing).add_edge(START, "a").freeze()

    assert graph.fields == {}
    assert not graph.schema.closed
