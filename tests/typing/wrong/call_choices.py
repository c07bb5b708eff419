"""Options of a call with invalid values."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

app.invoke({"n": 1}, thread_id="1", durability="never")  # pyright=reportArgumentType mypy=call-overload
app.invoke({"n": 1}, thread_id="1", on_busy="wait")  # pyright=reportArgumentType mypy=call-overload
app.invoke({"n": 1}, thread_id="1", on_unfinished="keep")  # pyright=reportArgumentType mypy=call-overload
app.invoke({"n": 1}, thread_id="1", version="v3")  # pyright=reportArgumentType mypy=call-overload
