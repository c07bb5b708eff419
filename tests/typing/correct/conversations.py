"""States with messages: the predefined one, one with more fields, messages as results."""

from __future__ import annotations

from typing import Any

from statewright import START, Message, MessagesState, MessagesStateGraph, RemoveMessage, StateGraph


class Chat(MessagesState):
    language: str


def reply(state: MessagesState) -> dict[str, Any]:
    return {"messages": [Message(f"You said {state['messages'][-1].text}", role="assistant")]}


def translate(state: Chat) -> dict[str, list[Message]]:
    return {"messages": [Message(state["language"], role="assistant")]}


def bare(state: MessagesState) -> Message:
    return Message("bare", role="assistant")


def several(state: MessagesState) -> list[Message | RemoveMessage]:
    return [Message("one", role="assistant"), RemoveMessage(state["messages"][0].id or "")]


def main() -> None:
    app = StateGraph(MessagesState).add_node(reply).add_edge(START, "reply").compile()
    messages: list[Message] = app.invoke({"messages": [{"role": "user", "content": "hi"}]})["messages"]
    assert messages[-1].text == "You said hi"
    chat = StateGraph(Chat).add_node(translate).add_edge(START, "translate").compile()
    assert chat.invoke({"messages": "hello", "language": "da"})["messages"][-1].text == "da"
    graph = MessagesStateGraph().add_node(bare).add_node(several).add_sequence(["bare", "several"])
    result = graph.add_edge(START, "bare").compile().invoke({"messages": [Message("hi")]}, version="v2")
    assert [message.text for message in result.value["messages"]] == ["bare", "one"]
