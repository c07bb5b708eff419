"""Compiling a `StateGraph`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from statewright import (
    START,
    Budget,
    CompiledGraph,
    InMemoryCache,
    InMemorySaver,
    InMemoryStore,
    Message,
    MessagesStateGraph,
    StateGraph,
    append,
)
from statewright.errors import InvalidGraph
from statewright.graph.builder import GraphWarning
from statewright.testing import FakeClock


class Typed(TypedDict, total=False):
    log: Annotated[list[str], append]
    x: int


@dataclass
class Data:
    x: int = 0


class Model(BaseModel):
    x: int = 0


def no_op(state: Any) -> None: ...


def graph(schema: Any = Typed, **options: Any) -> StateGraph:
    return StateGraph(schema, **options).add_node("a", no_op).add_edge(START, "a")


@pytest.mark.parametrize("schema", [Typed, Data, Model, {"x": int}], ids=["TypedDict", "dataclass", "pydantic", "dict"])
def test_a_schema_of_every_kind_compiles_and_runs(schema: Any) -> None:
    app = graph(schema).compile()
    assert isinstance(app, CompiledGraph)
    assert app.invoke({"x": 3})["x"] == 3


def test_a_state_can_be_one_bare_value() -> None:
    app = StateGraph(int).add_node("a", lambda state: state + 1).add_edge(START, "a").compile()
    assert app.invoke(3) == 4


def test_a_builder_can_be_extended_after_compiling() -> None:
    builder = graph()
    first = builder.compile()
    builder.add_node("b", no_op).add_edge("a", "b")
    second = builder.compile()
    assert (list(first.graph.nodes), list(second.graph.nodes)) == (["a"], ["a", "b"])


@pytest.mark.parametrize(
    ("builder", "name", "expected"),
    [(graph(), None, "Graph"), (graph(name="mine"), None, "mine"), (graph(name="mine"), "other", "other")],
)
def test_compile_can_rename_the_graph(builder: StateGraph, name: str | None, expected: str) -> None:
    assert builder.compile(name=name).name == expected


def test_a_compiled_graph_has_the_saver_cache_and_store_of_the_call() -> None:
    saver, cache, store = InMemorySaver(), InMemoryCache(), InMemoryStore()
    app = graph().compile(saver, cache=cache, store=store, clock=FakeClock())
    assert (app.checkpointer, app.cache, app.store) == (saver, cache, store)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpointer": "memory"}, "checkpointer= is 'memory' of type str.*InMemorySaver"),
        ({"checkpointer": InMemorySaver}, "checkpointer= is .* of type type.*InMemorySaver"),
        ({"checkpointer": True}, "checkpointer= is True"),
        ({"store": {}}, "store= is {} of type dict.*InMemoryStore"),
        ({"cache": object}, "cache= is .*InMemoryCache"),
        ({"unknown_keys": "ignore"}, "unknown_keys= is 'ignore'. Choices: warn, error, drop"),
        ({"validate": "everything"}, "validate= is 'everything'. Choices: input, all, off"),
        ({"interrupt_before": "b"}, "'b'"),
        ({"interrupt_after": ["a", "b"]}, "'b'"),
        ({"budget": Budget(max_steps=3, on_budget="b")}, "'b'"),
    ],
)
def test_an_invalid_argument_of_compile_is_a_problem_of_the_graph(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        graph().compile(**options)


def test_compile_reports_problems_of_arguments_and_graph_together() -> None:
    builder = graph(name="mine").add_edge("a", "missing").add_node("a", no_op)
    with pytest.raises(InvalidGraph) as caught:
        builder.compile(checkpointer="memory", unknown_keys="ignore")  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(f"mine has {len(caught.value.problems)} problems:")
    assert [
        part for part in ("'missing'", "added twice", "checkpointer=", "unknown_keys=") if part not in message
    ] == []


def test_problems_of_shape_are_warnings_without_strict() -> None:
    builder = graph().add_edge("a", "missing")
    with pytest.warns(GraphWarning, match="'missing'"):
        app = builder.compile(strict=False)
    assert app.invoke({"x": 1})["x"] == 1


def test_invalid_arguments_are_refused_without_strict() -> None:
    with pytest.raises(InvalidGraph, match="checkpointer="):
        graph().compile(checkpointer="memory", strict=False)  # type: ignore[arg-type]


def test_a_star_sets_a_breakpoint_before_every_node() -> None:
    app = graph().compile(InMemorySaver(), interrupt_before="*")
    app.invoke({"x": 1}, thread_id="1")
    assert app.get_state(thread_id="1").next == ("a",)


def test_nodes_of_a_messages_graph_can_return_a_bare_message() -> None:
    builder = MessagesStateGraph().add_node("a", lambda state: Message("hello", role="assistant")).add_edge(START, "a")
    result = builder.compile().invoke({"messages": ["hi"]})
    assert [(message.role, message.content) for message in result["messages"]] == [
        ("user", "hi"),
        ("assistant", "hello"),
    ]


def test_a_messages_graph_can_have_another_state_schema() -> None:
    class More(TypedDict, total=False):
        messages: Annotated[list[Message], append]
        x: int

    builder = MessagesStateGraph(More, name="chat").add_node("a", lambda state: {"x": 2}).add_edge(START, "a")
    app = builder.compile()
    assert (app.name, app.invoke({"x": 1})["x"]) == ("chat", 2)
