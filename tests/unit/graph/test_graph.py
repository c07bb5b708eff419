"""The properties of a frozen graph."""

from typing import Annotated, Any

from statewright import END, START, GraphBuilder, append
from statewright.channels import Append, LastValue


def no_op(state: Any) -> None: ...


def graph() -> Any:
    builder = GraphBuilder({"log": append, "x": int})
    for name in "abcd":
        builder.add_node(name, no_op)
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "a").add_edge(["a", "b"], "c").add_edge("c", "d")
    return builder.add_edge("d", END).freeze()


def test_channels_are_the_channels_of_all_fields() -> None:
    channels = graph().channels

    assert {name: type(channel) for name, channel in channels.items()} == {"log": Append, "x": LastValue}


def test_reach_is_a_bit_set_in_the_order_of_declaration() -> None:
    reach = graph().reach

    assert reach == {"a": 0b1111, "b": 0b1111, "c": 0b1000, "d": 0, START: 0b1111}


def test_joins_by_start_lists_each_join_under_all_its_starts() -> None:
    joins = graph().joins_by_start

    assert set(joins) == {"a", "b"}
    assert joins["a"] == joins["b"] == graph().joins


def test_properties_are_computed_once() -> None:
    frozen = graph()

    assert frozen.reach is frozen.reach
    assert frozen.successors is frozen.successors
    assert frozen.order is frozen.order


def test_fields_are_the_fields_of_all_schemas() -> None:
    from typing import TypedDict

    class Input(TypedDict):
        x: int

    class Output(TypedDict):
        log: Annotated[list[str], append]

    frozen = GraphBuilder(Input, output_schema=Output).add_node("a", no_op).add_edge(START, "a").freeze()

    assert list(frozen.fields) == ["x", "log"]
