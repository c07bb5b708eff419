"""The builder that compiles."""

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


def nothing(state: Any) -> None: ...


def graph(schema: Any = Typed, **options: Any) -> StateGraph:
    return StateGraph(schema, **options).add_node("a", nothing).add_edge(START, "a")


@pytest.mark.parametrize("schema", [Typed, Data, Model, {"x": int}], ids=["TypedDict", "dataclass", "pydantic", "dict"])
def test_a_schema_of_any_kind_is_compiled_and_run(schema: Any) -> None:
    app = graph(schema).compile()
    assert isinstance(app, CompiledGraph)
    assert app.invoke({"x": 3})["x"] == 3


def test_a_state_may_be_one_bare_value() -> None:
    app = StateGraph(int).add_node("a", lambda state: state + 1).add_edge(START, "a").compile()
    assert app.invoke(3) == 4


def test_compiling_leaves_the_builder_as_it_was() -> None:
    built = graph()
    first = built.compile()
    built.add_node("b", nothing).add_edge("a", "b")
    second = built.compile()
    assert (list(first.graph.nodes), list(second.graph.nodes)) == (["a"], ["a", "b"])


@pytest.mark.parametrize(
    ("built", "given", "name"),
    [(graph(), None, "Graph"), (graph(name="mine"), None, "mine"), (graph(name="mine"), "other", "other")],
)
def test_the_name_is_that_of_the_call_or_of_the_builder(built: StateGraph, given: str | None, name: str) -> None:
    assert built.compile(name=given).name == name


def test_what_is_given_is_kept() -> None:
    saver, cache, store = InMemorySaver(), InMemoryCache(), InMemoryStore()
    app = graph().compile(saver, cache=cache, store=store, clock=FakeClock())
    assert (app.checkpointer, app.cache, app.store) == (saver, cache, store)


@pytest.mark.parametrize(
    ("options", "said"),
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
def test_what_is_wrong_with_the_call_is_a_problem_of_the_graph(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidGraph, match=said):
        graph().compile(**options)


def test_problems_of_the_call_and_of_the_graph_are_found_together() -> None:
    built = graph(name="mine").add_edge("a", "nowhere").add_node("a", nothing)
    with pytest.raises(InvalidGraph) as caught:
        built.compile(checkpointer="memory", unknown_keys="ignore")  # type: ignore[arg-type]
    said = str(caught.value)
    assert said.startswith(f"mine has {len(caught.value.problems)} problems:")
    assert [part for part in ("'nowhere'", "added twice", "checkpointer=", "unknown_keys=") if part not in said] == []


def test_problems_of_shape_are_warnings_if_they_are_to_be_tolerated() -> None:
    built = graph().add_edge("a", "nowhere")
    with pytest.warns(GraphWarning, match="'nowhere'"):
        app = built.compile(strict=False)
    assert app.invoke({"x": 1})["x"] == 1


def test_problems_that_nothing_can_work_with_are_never_tolerated() -> None:
    with pytest.raises(InvalidGraph, match="checkpointer="):
        graph().compile(checkpointer="memory", strict=False)  # type: ignore[arg-type]


def test_every_node_may_be_a_breakpoint() -> None:
    app = graph().compile(InMemorySaver(), interrupt_before="*")
    app.invoke({"x": 1}, thread_id="1")
    assert app.get_state(thread_id="1").next == ("a",)


def test_a_graph_of_messages_takes_bare_answers() -> None:
    built = MessagesStateGraph().add_node("a", lambda state: Message("hello", role="assistant")).add_edge(START, "a")
    found = built.compile().invoke({"messages": ["hi"]})
    assert [(one.role, one.content) for one in found["messages"]] == [("user", "hi"), ("assistant", "hello")]


def test_a_graph_of_messages_may_have_a_state_of_its_own() -> None:
    class More(TypedDict, total=False):
        messages: Annotated[list[Message], append]
        x: int

    built = MessagesStateGraph(More, name="chat").add_node("a", lambda state: {"x": 2}).add_edge(START, "a")
    app = built.compile()
    assert (app.name, app.invoke({"x": 1})["x"]) == ("chat", 2)
