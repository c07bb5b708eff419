"""A node with a separate function for each driver, and a transparent node."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from statewright import START, MessagesState, Runtime, Send, StateGraph
from statewright.messages import Message


class TwoForms:
    """A node that returns the form in which it was called, and its thread."""

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"seen": [("awaited", threading.current_thread().name)]}

    def sync(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"seen": [("plain", threading.current_thread().name)]}


def app(sends: int = 0) -> Any:
    graph = StateGraph({"seen": lambda old, new: (old or []) + new})
    graph.add_node("node", TwoForms())
    if sends:
        graph.add_conditional_edges(START, lambda state: [Send("node", {})] * sends, ["node"])
    else:
        graph.add_edge(START, "node")
    return graph.compile()


def test_the_sync_driver_calls_the_plain_form_on_the_thread_of_the_caller() -> None:
    assert app().invoke({"seen": []})["seen"] == [("plain", threading.current_thread().name)]


def test_the_async_driver_awaits_the_coroutine_form() -> None:
    assert asyncio.run(app().ainvoke({"seen": []}))["seen"] == [("awaited", threading.current_thread().name)]


def test_several_plain_forms_run_on_worker_threads() -> None:
    seen = app(sends=3).invoke({"seen": []})["seen"]
    assert [form for form, _ in seen] == ["plain"] * 3
    assert all(name.startswith("statewright-worker") for _, name in seen)


def test_messages_of_a_transparent_nodes_subgraph_are_streamed_without_subgraphs() -> None:
    """Messages of other nodes' subgraphs are streamed only with `subgraphs=True`."""

    def speak(state: Any) -> dict[str, Any]:
        return {"messages": [Message("inside", role="assistant")]}

    inner = StateGraph(MessagesState)
    inner.add_node("speak", speak)
    inner.add_edge(START, "speak")
    part = inner.compile()

    for metadata, shown in (({"transparent": True}, ["inside"]), ({}, [])):
        outer = StateGraph(MessagesState)

        def call(state: Any) -> None:
            part.invoke({"messages": []})

        outer.add_node("call", call, metadata=metadata)
        outer.add_edge(START, "call")
        graph = outer.compile()
        parts = list(graph.stream({"messages": []}, stream_mode="messages"))
        assert [message.text for message, _ in parts] == shown
        assert [origin["node"] for _, origin in parts] == ["speak"] * len(shown)
        assert list(graph.stream({"messages": []}, stream_mode="updates")) == [{"call": None}]
