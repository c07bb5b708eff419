"""Conditional entries, contexts, entrypoints, cached messages and reducers: edge cases of the guides."""

from __future__ import annotations

import asyncio
import dataclasses
import operator
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from statewright import (
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    Message,
    MessagesState,
    OverwriteReducer,
    Runtime,
    StateGraph,
    entrypoint,
    get_config,
    get_stream_writer,
    interrupt,
)
from statewright.channels import overwrite
from statewright.errors import ConflictingWrites, InvalidConfig, InvalidGraph
from statewright.storage.sqlite import SqliteSaver

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], operator.add]


def graph_with_entry(path: Any) -> StateGraph:
    graph = StateGraph(State).add_node("a", lambda s: {"log": ["a"]}).add_node("b", lambda s: {"log": ["b"]})
    return graph.add_conditional_edges(START, path, ["a", "b"])


# -- conditional entries


def test_a_conditional_entry_may_access_the_runtime(driver: Any) -> None:
    def path(state: Any) -> str:
        get_stream_writer()("hello")
        return get_config()["configurable"]["thread_id"]

    app = graph_with_entry(path).compile(InMemorySaver())

    assert driver.stream(app, {"x": 1}, {"thread_id": "b"}, stream_mode="custom") == ["hello"]
    assert app.get_state({"thread_id": "b"}).values["log"] == ["b"]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("answer", ["a", "b"])
def test_a_conditional_entry_may_ask_a_question(driver: Any, answer: str, nested: bool) -> None:
    seen: list[Any] = []

    def path(state: Any) -> str:
        seen.append(state["log"])
        return interrupt("where to?")

    app = graph_with_entry(path).compile(InMemorySaver())
    if nested:
        app = StateGraph(State).add_node("inner", app).add_edge(START, "inner").compile(InMemorySaver())

    result = driver.invoke(app, {"log": ["in"]}, THREAD)
    assert (result["log"], result["__interrupt__"][0].value) == (["in"], "where to?")
    assert driver.invoke(app, Command(resume=answer), THREAD) == {"log": ["in", answer]}
    assert all(log == ["in"] for log in seen)


def test_a_thread_that_waits_at_its_entry_is_saved(driver: Any, tmp_path: Any) -> None:
    with SqliteSaver(tmp_path / "threads.db") as saver:
        app = graph_with_entry(lambda state: interrupt("where to?")).compile(saver)
        driver.invoke(app, {"x": 1}, THREAD)
    with SqliteSaver(tmp_path / "threads.db") as saver:
        app = graph_with_entry(lambda state: interrupt("where to?")).compile(saver)
        assert driver.invoke(app, Command(resume="b"), THREAD) == {"x": 1, "log": ["b"]}


def test_a_conditional_entry_may_be_a_coroutine(driver: Any) -> None:
    async def path(state: Any) -> str:
        await asyncio.sleep(0)
        return "b"

    assert driver.invoke(graph_with_entry(path).compile(), {"x": 1})["log"] == ["b"]


# -- contexts


@dataclasses.dataclass
class Context:
    user: str = "nobody"


class TypedContext(TypedDict, total=False):
    user: str


class ModelContext(BaseModel):
    user: str = Field("nobody", validation_alias="name")


class AliasedContext(BaseModel):
    user: str = Field("nobody", validation_alias=AliasChoices("name", "login"))


class OpenContext(BaseModel):
    model_config = ConfigDict(extra="allow")

    user: str = "nobody"


def compile_with_context(schema: Any) -> Any:
    def node(state: Any, runtime: Runtime[Any]) -> Any:
        context = runtime.context
        return {"log": [context["user"] if isinstance(context, dict) else context.user]}

    return StateGraph(State, schema).add_node("node", node).add_edge(START, "node").compile()


@pytest.mark.parametrize("schema", [Context, TypedContext, ModelContext])
def test_an_unknown_key_of_a_context_is_refused_with_a_suggestion(driver: Any, schema: Any) -> None:
    with pytest.raises(InvalidConfig, match=r"'usr'.*Did you mean 'user'"):
        driver.invoke(compile_with_context(schema), {"x": 1}, context={"usr": "bob"})


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Context, {"user": "bob"}),
        (TypedContext, {"user": "bob"}),
        (ModelContext, {"name": "bob"}),
        (AliasedContext, {"login": "bob"}),
        (OpenContext, {"user": "bob", "more": 1}),
        (None, {"user": "bob", "more": 1}),
    ],
)
def test_a_context_accepts_the_keys_of_its_schema(driver: Any, schema: Any, context: Any) -> None:
    assert driver.invoke(compile_with_context(schema), {"x": 1}, context=context)["log"] == ["bob"]


# -- entrypoints


def test_an_entrypoint_may_be_annotated_with_its_result_and_saved_value(driver: Any) -> None:
    @entrypoint(InMemorySaver())
    def accumulate(n: int, *, previous: int | None = None) -> entrypoint.final[int, int]:
        return entrypoint.final(value=previous or 0, save=(previous or 0) + n)

    assert [driver.invoke(accumulate, n, THREAD) for n in (1, 2, 3)] == [0, 1, 3]


# -- cached messages


class TopicState(MessagesState):
    topic: int


def compile_cached(node: Any) -> Any:
    graph = StateGraph(TopicState).add_node(
        "say", node, cache_policy=CachePolicy(key_func=lambda state: state["topic"])
    )
    return graph.add_edge(START, "say").compile(InMemorySaver(), cache=InMemoryCache())


def run_three_turns(driver: Any, app: Any) -> list[Any]:
    for _ in range(3):
        turn = {"messages": [{"role": "user", "content": "hi"}], "topic": 1}
        messages = driver.invoke(app, turn, THREAD)["messages"]
    return messages


def inner_graph() -> Any:
    graph = StateGraph(TopicState).add_sequence(
        [("one", lambda s: {"messages": ["hello"]}), ("two", lambda s: {"messages": ["bye"]})]
    )
    return graph.add_edge(START, "one").compile()


@pytest.mark.parametrize(
    ("node", "texts"),
    [
        (lambda s: {"messages": ["hello"]}, ["hello"]),
        (lambda s: {"messages": [Message("hello"), Message("bye")]}, ["hello", "bye"]),
        (lambda s: [{"messages": "hello"}, {"messages": "bye"}], ["hello", "bye"]),
        (lambda s, runtime: {"messages": Message("hello", id=f"{runtime.execution_info.task_id}-0")}, ["hello"]),
        (inner_graph(), ["hello", "bye"]),
    ],
)
def test_a_cached_result_appends_new_messages_each_time(driver: Any, node: Any, texts: list[str]) -> None:
    messages = run_three_turns(driver, compile_cached(node))

    assert [message.text for message in messages] == ["hi", *texts] * 3
    assert len({message.id for message in messages}) == len(messages)


def test_a_cached_result_keeps_explicit_message_ids(driver: Any) -> None:
    messages = run_three_turns(driver, compile_cached(lambda s: {"messages": Message("summary", id="summary")}))

    assert [message.text for message in messages] == ["hi", "summary", "hi", "hi"]


# -- reducers


@pytest.mark.parametrize("reducer", [overwrite, OverwriteReducer])
@pytest.mark.parametrize("is_dict", [False, True])
def test_overwrite_keeps_the_last_of_several_writes_in_task_order(driver: Any, reducer: Any, is_dict: bool) -> None:
    schema: Any = {"who": reducer} if is_dict else TypedDict("Who", {"who": Annotated[str, reducer]})
    graph = StateGraph(schema).add_node("a", lambda s: {"who": "a"}).add_node("b", lambda s: {"who": "b"})

    assert driver.invoke(graph.add_edge(START, "b").add_edge(START, "a").compile(), {"who": "in"}) == {"who": "b"}


def test_a_field_without_a_reducer_takes_one_write_per_superstep(driver: Any) -> None:
    graph = StateGraph(State).add_node("a", lambda s: {"x": 1}).add_node("b", lambda s: {"x": 2})

    with pytest.raises(ConflictingWrites):
        driver.invoke(graph.add_edge(START, "a").add_edge(START, "b").compile(), {"x": 0})


def invalid_reducer(value: Any) -> Any:
    return value


def test_invalid_reducers_are_reported_with_all_other_problems() -> None:
    class Bad(TypedDict):
        first: Annotated[int, invalid_reducer]
        second: Annotated[list[int], operator.add, max]

    graph = (
        StateGraph(Bad, input_schema={"third": invalid_reducer}).add_node("node", lambda s: None).add_edge(START, "nod")
    )

    with pytest.raises(InvalidGraph) as caught:
        graph.compile(checkpointer=3)  # type: ignore[arg-type]
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 5
    for part in ("checkpointer=", "'first'", "'second'", "'third'", "'nod'"):
        assert part in problems
