"""Conversations of LangChain messages, merged as LangGraph's add_messages merges them."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from typing_extensions import TypedDict

from statewright import START, InMemorySaver, Overwrite, StateGraph
from statewright.channels import MISSING, Added, Merged
from statewright.channels.replay import apply_change
from statewright.errors import InvalidUpdateError
from statewright.langchain import REMOVE_ALL_MESSAGES, LangChainMessages, MessagesState, add_messages
from statewright.messages import Message, ToolCall, ToolResult
from statewright.messages import RemoveMessage as StatewrightRemoveMessage
from statewright.state import read_schema
from statewright.storage.sqlite import SqliteSaver

H, A, R, ALL = HumanMessage, AIMessage, RemoveMessage, REMOVE_ALL_MESSAGES
ERROR = "an error"

# Written by running langgraph 1.2.22 with langchain-core 1.7.2 on these cases.
RECORDED: list[tuple[str, Any, Any, Any]] = [
    ("append", [H("a", id="1")], [A("b", id="2")], [("human", "a", "1"), ("ai", "b", "2")]),
    ("replace", [H("a", id="1"), H("b", id="2")], [H("A", id="1")], [("human", "A", "1"), ("human", "b", "2")]),
    ("replace by another class", [H("a", id="1")], [A("b", id="1")], [("ai", "b", "1")]),
    ("twice in one update", [], [H("a", id="1"), H("b", id="1")], [("human", "b", "1")]),
    ("remove", [H("a", id="1"), H("b", id="2")], [R(id="1")], [("human", "b", "2")]),
    ("remove twice", [H("a", id="1"), H("b", id="2")], [R(id="1"), R(id="1")], [("human", "b", "2")]),
    (
        "remove and write again",
        [H("a", id="1"), H("b", id="2")],
        [R(id="1"), H("A", id="1")],
        [("human", "A", "1"), ("human", "b", "2")],
    ),
    ("write and remove", [H("a", id="1"), H("b", id="2")], [H("A", id="1"), R(id="1")], [("human", "b", "2")]),
    ("add and remove", [H("a", id="1")], [H("b", id="2"), R(id="2")], [("human", "a", "1")]),
    ("remove an unknown message", [H("a", id="1")], [R(id="9")], ERROR),
    ("remove all", [H("a", id="1")], [R(id=ALL), H("b", id="2")], [("human", "b", "2")]),
    (
        "remove all, twice",
        [H("a", id="1")],
        [H("x", id="5"), R(id=ALL), H("b", id="2"), R(id=ALL), H("c", id="3")],
        [("human", "c", "3")],
    ),
    (
        "remove all after an unknown message",
        [H("a", id="1")],
        [R(id="9"), R(id=ALL), H("c", id="3")],
        [("human", "c", "3")],
    ),
    ("without ids", [H("a")], [H("b")], [("human", "a", "new"), ("human", "b", "new")]),
    ("text", [H("a", id="1")], "b", [("human", "a", "1"), ("human", "b", "new")]),
    ("a pair", [H("a", id="1")], ("ai", "b"), [("human", "a", "1"), ("ai", "b", "new")]),
    (
        "a list of pairs",
        [H("a", id="1")],
        [("human", "b"), ("system", "c")],
        [("human", "a", "1"), ("human", "b", "new"), ("system", "c", "new")],
    ),
    ("a dict", [H("a", id="1")], {"role": "assistant", "content": "b"}, [("human", "a", "1"), ("ai", "b", "new")]),
    (
        "a dict with a type",
        [H("a", id="1")],
        [{"type": "human", "content": "b", "id": "2"}],
        [("human", "a", "1"), ("human", "b", "2")],
    ),
    ("one message", H("a", id="1"), A("b", id="2"), [("human", "a", "1"), ("ai", "b", "2")]),
    ("a chunk", [H("a", id="1")], AIMessageChunk("b", id="2"), [("human", "a", "1"), ("ai", "b", "2")]),
    ("chunks of a message", [], [AIMessageChunk("b", id="2"), AIMessageChunk("c", id="2")], [("ai", "c", "2")]),
    ("a chunk replaces", [A("a", id="2")], [AIMessageChunk("b", id="2")], [("ai", "b", "2")]),
    (
        "same ids on the left",
        [H("a", id="1"), H("b", id="1")],
        [H("c", id="1")],
        [("human", "a", "1"), ("human", "c", "1")],
    ),
    ("chunks on the left", [AIMessageChunk("b", id="2")], [], [("ai", "b", "2")]),
    ("nothing", [H("a", id="1")], [], [("human", "a", "1")]),
    ("no message", [H("a", id="1")], [7], ERROR),
    ("an unknown role", [H("a", id="1")], [("boss", "b")], ERROR),
]
DIFFERENT_FROM_LANGGRAPH: list[tuple[str, Any, Any, Any]] = [
    # LangGraph keeps both messages in the first case, and the RemoveMessage itself in the second.
    (
        "remove all and write twice",
        [H("a", id="1")],
        [R(id=ALL), H("b", id="2"), H("c", id="2")],
        [("human", "c", "2")],
    ),
    ("remove all and remove", [H("a", id="1")], [R(id=ALL), H("b", id="2"), R(id="2")], []),
]
CASES = [*RECORDED, *DIFFERENT_FROM_LANGGRAPH]


def summarize(messages: list[Any]) -> list[tuple[str, Any, str]]:
    """Reduce messages to type, content and id; the id is "new" if it was drawn."""
    return [(message.type, message.content, message.id if len(message.id) < 4 else "new") for message in messages]


@pytest.mark.parametrize(("left", "right", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_messages_are_merged_as_langgraph_merges_them(left: Any, right: Any, expected: Any) -> None:
    if expected is ERROR:
        with pytest.raises(InvalidUpdateError):
            add_messages(left, right)
    else:
        assert summarize(add_messages(left, right)) == expected


@pytest.mark.parametrize(("left", "right"), [case[1:3] for case in CASES if case[3] is not ERROR])
def test_a_stored_change_restores_the_same_value(left: Any, right: Any) -> None:
    channel = LangChainMessages()
    before = channel.apply(MISSING, [channel.prepare(left, "t0")])
    batch = channel.prepare(right, "t1")
    after = channel.apply(before, [batch])
    assert apply_change(before, channel.delta([batch], after)) == after


def test_appending_stores_only_the_new_messages() -> None:
    channel = LangChainMessages()
    new, replacing = channel.prepare(["a"], "t1"), channel.prepare([H("b", id="1")], "t1")
    assert type(channel.delta([new], channel.apply([], [new]))) is Added
    assert type(channel.delta([new, replacing], channel.apply([], [new, replacing]))) is Merged


def test_langgraph_gives_the_recorded_results() -> None:
    message = pytest.importorskip("langgraph.graph.message", reason="langgraph is not installed")
    for name, left, right, expected in RECORDED:
        if expected is ERROR:
            with pytest.raises((ValueError, NotImplementedError)):
                message.add_messages(left, right)
        else:
            assert summarize(message.add_messages(left, right)) == expected, name


def test_ids_depend_on_the_task_and_the_callers_message_is_not_changed() -> None:
    original = H("mine")
    channel = LangChainMessages()
    batches = [channel.prepare([original, "b"], "task") for _ in range(2)]
    assert batches[0] == batches[1]
    assert [message.id for message in batches[0].items] == ["task-0", "task-1"]
    assert original.id is None


def test_statewright_messages_become_langchain_messages() -> None:
    call = ToolCall("c1", "add", {"a": 1})
    merged = add_messages([], [Message("x", "assistant", id="1", tool_calls=(call,)), ToolResult("c1", 3, "add")])
    assert [type(message) for message in merged] == [AIMessage, ToolMessage]
    assert merged[0].tool_calls == [{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]
    assert summarize(add_messages(merged, StatewrightRemoveMessage("1")))[0][:2] == ("tool", "3")


def test_an_overwrite_replaces_the_conversation() -> None:
    channel = LangChainMessages()
    prepared = channel.prepare(Overwrite(["a"]), "t")
    assert summarize(channel.apply([H("b", id="1")], [prepared])) == [("human", "a", "t-0")]


def test_none_and_an_unknown_format_are_rejected() -> None:
    with pytest.raises(ValueError, match="right is None"):
        add_messages([H("a")], None)
    with pytest.raises(InvalidUpdateError, match="Unknown format 'xml'"):
        add_messages([], [], format="xml")  # type: ignore[arg-type]


class OpenAI(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages(format="langchain-openai")]


def test_a_format_in_an_annotation_configures_the_channel() -> None:
    schema = read_schema(OpenAI)
    assert schema.channels["messages"] == LangChainMessages(format="langchain-openai")
    part = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "1234"}}
    graph = StateGraph(OpenAI)
    graph.add_node("look", lambda state: {"messages": [{"role": "user", "content": [part]}]})
    graph.add_edge(START, "look")
    (_, message) = graph.compile().invoke({"messages": "hi"})["messages"]
    assert message.content == [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,1234"}}]


# -- in a graph


def talk(state: MessagesState) -> Any:
    question = state["messages"][-1]
    assert isinstance(question, HumanMessage)
    call = {"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    answer = AIMessage(f"{question.content}!", tool_calls=[call], usage_metadata=usage, response_metadata={"m": "x"})
    return {"messages": [answer, ToolMessage("2", tool_call_id="c1", artifact={"n": [2]}, status="error")]}


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_savers_store_langchain_messages_without_registration(kind: str, tmp_path: Any) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    memory = InMemorySaver()

    def saver() -> Any:
        return memory if kind == "memory" else SqliteSaver(tmp_path / "threads.db")

    config = {"configurable": {"thread_id": "1"}}
    with saver() as first:
        app = graph.compile(first)
        messages = app.invoke({"messages": "hi"}, config)["messages"]
        app.update_state(config, {"messages": [RemoveMessage(id=messages[0].id)]})
        app.invoke({"messages": [("user", "again"), AIMessageChunk("x", id="9"), HumanMessage("last")]}, config)
        expected = app.get_state(config).values["messages"]
    if kind == "memory":
        return
    with saver() as second:
        stored = graph.compile(second).get_state(config).values["messages"]
        histories = [len(state.values["messages"]) for state in graph.compile(second).get_state_history(config)]
    assert stored == expected
    assert [type(message) for message in stored] == [type(message) for message in expected]
    assert stored[:2] == messages[1:]
    assert [message.model_fields_set for message in stored] == [message.model_fields_set for message in expected]
    assert max(histories) == 7


def test_langchain_messages_are_streamed() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    parts = list(graph.compile().stream({"messages": "hi"}, stream_mode="messages"))
    assert [(message.type, origin["node"]) for message, origin in parts] == [("ai", "talk"), ("tool", "talk")]
