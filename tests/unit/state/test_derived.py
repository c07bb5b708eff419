"""Derived fields: fields of results that are computed when they are read."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, InMemorySaver, StateGraph, append
from statewright.errors import InvalidGraph
from statewright.state import Derived


class State(TypedDict, total=False):
    counts: Annotated[list[int], append]


class Result(TypedDict, total=False):
    counts: list[int]
    total: Annotated[int, Derived(lambda values: sum(values.get("counts", ())))]


def counting_graph() -> StateGraph:
    graph = StateGraph(State, output_schema=Result)
    return graph.add_node("count", lambda state: {"counts": [2, 3]}).add_edge(START, "count")


def test_results_snapshots_and_streams_have_derived_fields() -> None:
    app = counting_graph().compile(InMemorySaver())
    assert app.invoke({"counts": [1]}, thread_id="t") == {"counts": [1, 2, 3], "total": 6}
    assert app.get_state({"configurable": {"thread_id": "t"}}).values["total"] == 6
    assert [part["total"] for part in app.stream({"counts": [1]}, thread_id="u", stream_mode="values")] == [1, 6]


def test_checkpoints_do_not_store_derived_fields() -> None:
    saver = InMemorySaver()
    counting_graph().compile(saver).invoke({}, thread_id="t")
    saved = saver.load("t")
    assert saved is not None
    assert list(saved.checkpoint.values) == ["counts"]


def test_the_json_schema_of_the_output_has_derived_fields() -> None:
    properties = counting_graph().compile().get_output_jsonschema()["properties"]
    assert properties["total"] == {"title": "Total", "type": "integer"}


def test_a_node_cannot_write_a_derived_field() -> None:
    graph = StateGraph(State, output_schema=Result).add_node("a", lambda state: {"total": 1}).add_edge(START, "a")
    with pytest.warns(UserWarning, match="total"):
        assert graph.compile().invoke({}) == {"counts": [], "total": 0}


@pytest.mark.parametrize("kind", ["state", "input"])
def test_state_and_input_schemas_cannot_have_derived_fields(kind: str) -> None:
    schemas: dict[str, Any] = {"state_schema": Result} if kind == "state" else {"input_schema": Result}
    graph = StateGraph(**{"state_schema": State, **schemas}).add_node("a", lambda state: None).add_edge(START, "a")
    with pytest.raises(InvalidGraph, match=f"{kind} schema contains 'total'"):
        graph.compile()
