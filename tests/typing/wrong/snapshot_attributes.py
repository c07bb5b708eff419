"""Attributes that a snapshot of a thread does not have."""

from __future__ import annotations

from typing import Any, TypedDict

from statewright import START, InMemorySaver, StateGraph


class State(TypedDict):
    n: int


def add(state: State) -> dict[str, Any]:
    return {"n": state["n"] + 1}


app = StateGraph(State).add_node(add).add_edge(START, "add").compile(InMemorySaver())

snapshot = app.get_state(thread_id="1")
print(snapshot.value)  # pyright=reportAttributeAccessIssue mypy=attr-defined
print(snapshot.values.n)  # pyright=reportAttributeAccessIssue mypy=attr-defined
for earlier in app.get_state_history(thread_id="1"):
    print(earlier.next + 1)  # pyright=reportOperatorIssue mypy=operator
