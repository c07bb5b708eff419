"""The stream mode `messages`: it shows the messages of the graph, except those of silenced nodes and calls."""

from __future__ import annotations

from typing import Any

import pytest

from statewright import START, Message, MessagesState, Runtime, StateGraph
from statewright.agents import ask, create_agent
from statewright.errors import HiddenMessagesWarning
from statewright.models import ModelRequest, ScriptedModel

INPUT: dict[str, Any] = {"messages": [Message("hi", id="1")]}


def _agent(text: str = "one two") -> Any:
    return create_agent(model=ScriptedModel([text], repeat_last=True), tools=[], name="inner")


def _nested(**node_options: Any) -> Any:
    graph = StateGraph(MessagesState).add_node("inner", _agent(), **node_options)
    return graph.add_edge(START, "inner").compile(name="Outer")


def _texts(parts: list[Any]) -> str:
    return "".join(message.text for message, _ in parts)


def test_a_reader_who_sees_no_messages_is_warned_about_those_of_a_subgraph(driver: Any) -> None:
    app = _nested()
    with pytest.warns(
        HiddenMessagesWarning, match=r"'Outer'.*subgraph 'inner' has produced some\. Stream with subgraphs=True"
    ):
        assert driver.stream(app, INPUT, stream_mode="messages") == []
    with pytest.warns(HiddenMessagesWarning):
        driver.stream(app, INPUT, stream_mode=["messages", "values"])


def test_the_warning_points_to_the_code_of_the_reader() -> None:
    with pytest.warns(HiddenMessagesWarning) as caught:
        list(_nested().stream(INPUT, stream_mode="messages"))
    assert caught[0].filename == __file__


def test_readers_who_see_messages_or_request_none_get_no_warning(driver: Any) -> None:
    assert driver.stream(_nested(), INPUT, stream_mode="values")
    assert driver.stream(_nested(), INPUT, stream_mode="messages", subgraphs=True)
    shown = driver.stream(_nested(metadata={"transparent": True}), INPUT, stream_mode="messages")
    assert _texts(shown) == "one two"
    graph = StateGraph(MessagesState).add_node("inner", _agent())
    graph.add_node("own", lambda state: {"messages": [Message("bye", "assistant")]})
    app = graph.add_edge(START, "inner").add_edge("inner", "own").compile()
    assert _texts(driver.stream(app, INPUT, stream_mode="messages")) == "bye"


async def _speak(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    model = ScriptedModel(["aloud"])
    response = await ask(model, ModelRequest(messages=state["messages"]), runtime)
    return {"messages": [response.message]}


async def _think(state: MessagesState, runtime: Runtime[None]) -> dict[str, Any]:
    model = ScriptedModel(["quietly"])
    await ask(model, ModelRequest(messages=state["messages"]), runtime, show=False)
    return {}


def test_a_model_call_with_show_false_is_not_streamed(driver: Any) -> None:
    graph = StateGraph(MessagesState).add_node("think", _think).add_node("speak", _speak)
    app = graph.add_edge(START, "think").add_edge("think", "speak").compile()
    assert _texts(driver.stream(app, INPUT, stream_mode="messages")) == "aloud"


def test_messages_of_a_node_tagged_nostream_are_not_streamed(driver: Any) -> None:
    graph = StateGraph(MessagesState).add_node("quiet", _speak, tags=["nostream"]).add_node("speak", _speak)
    app = graph.add_edge(START, "quiet").add_edge("quiet", "speak").compile()
    parts = driver.stream(app, INPUT, stream_mode="messages")
    assert _texts(parts) == "aloud"
    assert {metadata["node"] for _, metadata in parts} == {"speak"}
    # Its update is streamed nevertheless.
    assert [list(part) for part in driver.stream(app, INPUT)] == [["quiet"], ["speak"]]


@pytest.mark.parametrize("node_options", [{}, {"metadata": {"transparent": True}}])
def test_messages_of_a_subgraph_tagged_nostream_are_not_streamed_at_any_depth(
    driver: Any, node_options: dict[str, Any]
) -> None:
    middle = StateGraph(MessagesState).add_node("agent", _agent(), **node_options).add_edge(START, "agent").compile()
    graph = StateGraph(MessagesState).add_node("middle", middle, tags=["nostream"], **node_options)
    app = graph.add_edge(START, "middle").compile()
    assert driver.stream(app, INPUT, stream_mode="messages", subgraphs=True) == []
    assert driver.stream(app, INPUT, stream_mode="messages") == []


def test_messages_of_a_tagged_node_in_a_subgraph_are_not_streamed(driver: Any) -> None:
    inner = StateGraph(MessagesState).add_node("quiet", _speak, tags=["nostream"]).add_node("speak", _speak)
    middle = inner.add_edge(START, "quiet").add_edge("quiet", "speak").compile()
    app = StateGraph(MessagesState).add_node("middle", middle).add_edge(START, "middle").compile()
    parts = driver.stream(app, INPUT, stream_mode="messages", subgraphs=True)
    assert {metadata["node"] for _, (_, metadata) in parts} == {"speak"}


def test_messages_of_an_agent_called_in_a_tagged_node_are_not_streamed(driver: Any) -> None:
    async def call(state: MessagesState) -> dict[str, Any]:
        return {"messages": (await _agent().ainvoke({"messages": state["messages"]}))["messages"][-1:]}

    graph = StateGraph(MessagesState).add_node("call", call, tags=["nostream"]).add_edge(START, "call")
    assert driver.stream(graph.compile(), INPUT, stream_mode="messages", subgraphs=True) == []
