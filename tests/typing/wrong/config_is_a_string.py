"""A thread id as the config."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

app.invoke({"n": 1}, "thread-1")  # pyright=reportArgumentType mypy=call-overload
app.get_state("thread-1")  # pyright=reportArgumentType mypy=arg-type
