"""An input that is neither fields nor a Command."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

app.invoke("hello", thread_id="1")  # pyright=reportArgumentType mypy=call-overload
app.batch([{"n": 1}, 2])  # pyright=reportArgumentType mypy=list-item
