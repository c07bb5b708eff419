"""Objects with `invoke` and `ainvoke` as nodes."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.graph.functions.runnable import RunnableNode, SyncRunnable, as_action, as_path


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class FullRunnable:
    """Has the methods of a Runnable of LangChain."""

    name: str | None = None

    def invoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002
        return {"log": ["invoke", config["configurable"]["thread_id"]]}

    async def ainvoke(self, input: Any, config: Any = None, **more: Any) -> Any:  # noqa: A002
        return {"log": ["ainvoke", config["configurable"]["thread_id"]]}


class NamedRunnable(FullRunnable):
    def get_name(self) -> str:
        return "named"


class InvokeOnly:
    name = "only"

    def invoke(self, state: Any) -> Any:
        return {"log": ["invoke"]}


class CallableRunnable(InvokeOnly):
    def __call__(self, state: Any) -> Any:
        return {"log": ["call"]}


class Router:
    def invoke(self, state: Any, config: Any = None) -> str:
        return "named"


def test_invoke_calls_a_runnable_and_ainvoke_awaits_it_with_the_config() -> None:
    graph = StateGraph(State).add_node(NamedRunnable()).add_node("other", InvokeOnly())
    app = graph.add_edge(START, "named").add_edge("named", "other").compile(InMemorySaver())

    assert app.invoke({}, thread_id="1")["log"] == ["invoke", "1", "invoke"]
    assert asyncio.run(app.ainvoke({}, thread_id="2"))["log"] == ["ainvoke", "2", "invoke"]


@pytest.mark.parametrize(
    ("runnable", "name"), [(FullRunnable(), "FullRunnable"), (NamedRunnable(), "named"), (InvokeOnly(), "only")]
)
def test_a_node_without_a_name_has_the_name_of_its_runnable(runnable: Any, name: str) -> None:
    assert list(StateGraph(State).add_node(runnable).nodes) == [name]


def test_a_callable_is_called_unless_it_has_invoke_and_ainvoke() -> None:
    function = CallableRunnable()

    assert as_action(function) is function
    assert as_action(FullRunnable) is FullRunnable
    assert isinstance(as_action(FullRunnable()), RunnableNode)
    assert isinstance(as_action(InvokeOnly()), SyncRunnable)
    assert as_action("text") == "text"


def test_a_compiled_graph_is_not_wrapped_as_a_runnable() -> None:
    graph = StateGraph(State).add_node("a", lambda s: None).add_edge(START, "a").compile()

    assert as_action(graph) is graph


def test_a_runnable_can_be_a_path_and_a_name_can_be_the_path_map() -> None:
    graph = StateGraph(State).add_node("a", lambda s: None).add_node(NamedRunnable()).add_edge(START, "a")
    graph.add_conditional_edges("a", Router(), "named")

    assert graph.branches["a"][0].targets == {"named": "named"}
    assert graph.compile(InMemorySaver()).invoke({}, thread_id="1")["log"] == ["invoke", "1"]


def test_as_path_returns_other_values_unchanged() -> None:
    assert as_path(len) is len
    assert as_path(Router) is Router
    assert as_path(3) == 3


def test_a_map_can_run_a_runnable_for_each_item() -> None:
    class Doubler:
        async def ainvoke(self, item: int) -> int:
            return item * 2

        def invoke(self, item: int) -> int:
            return item * 2

    class Items(TypedDict, total=False):
        items: list[int]
        doubled: list[int]

    graph = StateGraph(Items).add_map("double", Doubler(), over="items", into="doubled").add_edge(START, "double")

    assert graph.compile().invoke({"items": [1, 2]})["doubled"] == [2, 4]


def test_a_sequence_names_a_runnable_like_add_node() -> None:
    graph = (
        StateGraph(State)
        .add_sequence([NamedRunnable(), ("last", lambda state: None)])
        .add_edge(START, "named")
        .freeze()
    )

    assert graph.edges["named"] == ("last",)
