"""The result of a call is a dict with any class of state; that of version v2 has no keys."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

print(app.invoke({"n": 1}, thread_id="1").n)  # pyright=reportAttributeAccessIssue mypy=attr-defined
app.invoke({"n": 1}, thread_id="1", version="v2")["n"]  # pyright=reportIndexIssue mypy=index
app.invoke({"n": 1}, thread_id="1", version="v2").value["m"]  # pyright=reportGeneralTypeIssues mypy=typeddict-item
