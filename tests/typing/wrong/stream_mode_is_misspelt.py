"""A stream mode that does not exist, alone and among others."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

app.stream({"n": 1}, stream_mode="value")  # pyright=reportArgumentType mypy=arg-type
app.stream({"n": 1}, stream_mode=["values", "update"])  # pyright=reportArgumentType mypy=list-item
