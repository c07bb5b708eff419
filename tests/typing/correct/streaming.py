"""Streams: each mode, several modes, subgraphs, the second version, async."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

from statewright import START, Runtime, StateGraph, get_stream_writer
from statewright.graph import StreamWriter
from statewright.runtime import StreamMode


class State(TypedDict):
    n: int


def add(state: State, writer: StreamWriter, runtime: Runtime) -> dict[str, Any]:
    writer({"half": True})
    get_stream_writer()("done")
    return {"n": state["n"] + 1}


async def read(mode: StreamMode) -> list[Any]:
    app = StateGraph(State).add_node(add).add_edge(START, "add").compile()
    return [part async for part in app.astream({"n": 1}, stream_mode=mode)]


def main() -> None:
    app = StateGraph(State).add_node(add).add_edge(START, "add").compile()
    assert [list(update) for update in app.stream({"n": 1})] == [["add"]]
    assert [values["n"] for values in app.stream({"n": 1}, stream_mode="values")] == [1, 2]
    assert list(app.stream({"n": 1}, stream_mode="custom")) == [{"half": True}, "done"]
    for message, metadata in app.stream({"n": 1}, stream_mode="messages"):
        print(message.text, metadata["node"])
    modes = [mode for mode, _ in app.stream({"n": 1}, stream_mode=["values", "updates"])]
    assert modes == ["values", "updates", "values"]
    for namespace, mode, _ in app.stream({"n": 1}, stream_mode=["tasks"], subgraphs=True):
        assert (namespace, mode) == ((), "tasks")
    parts = [part["type"] for part in app.stream({"n": 1}, stream_mode="values", version="v2")]
    assert parts == ["values", "values"]
    stream = app.stream({"n": 1})
    next(stream)
    stream.close()
    assert asyncio.run(read("updates")) == [{"add": {"n": 2}}]
    assert app.invoke({"n": 1}, stream_mode="updates") == [{"add": {"n": 2}}]
