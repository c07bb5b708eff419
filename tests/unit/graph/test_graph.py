"""A frozen graph: what can be read off it."""

from typing import Annotated, Any

from statewright import END, START, GraphBuilder, append
from statewright.channels import Append, LastValue


def nothing(state: Any) -> None: ...


def graph() -> Any:
    builder = GraphBuilder({"log": append, "x": int})
    for name in "abcd":
        builder.add_node(name, nothing)
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "a").add_edge(["a", "b"], "c").add_edge("c", "d")
    return builder.add_edge("d", END).freeze()


def test_channels_are_those_of_all_fields() -> None:
    channels = graph().channels

    assert {name: type(channel) for name, channel in channels.items()} == {"log": Append, "x": LastValue}


def test_reach_is_a_bit_set_over_the_order_of_declaration() -> None:
    reach = graph().reach

    assert reach == {"a": 0b1111, "b": 0b1111, "c": 0b1000, "d": 0, START: 0b1111}


def test_joins_are_found_by_each_of_their_starts() -> None:
    found = graph().joins_by_start

    assert set(found) == {"a", "b"}
    assert found["a"] == found["b"] == graph().joins


def test_what_is_worked_out_is_worked_out_once() -> None:
    frozen = graph()

    assert frozen.reach is frozen.reach
    assert frozen.successors is frozen.successors
    assert frozen.order is frozen.order


def test_fields_of_several_schemas_are_one_map() -> None:
    from typing import TypedDict

    class One(TypedDict):
        x: int

    class Two(TypedDict):
        log: Annotated[list[str], append]

    frozen = GraphBuilder(One, output_schema=Two).add_node("a", nothing).add_edge(START, "a").freeze()

    assert list(frozen.fields) == ["x", "log"]
