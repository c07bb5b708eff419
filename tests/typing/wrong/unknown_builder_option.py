"""An option of the builder, and of a node, that does not exist."""

from __future__ import annotations

from typing import TypedDict

from statewright import StateGraph


class State(TypedDict):
    n: int


StateGraph(State, titel="x")  # pyright=reportCallIssue mypy=call-overload
graph = StateGraph(State)
graph.add_node("a", print, retries=3)  # pyright=reportCallIssue mypy=call-overload
