"""A conditional edge that returns booleans, without a mapping to nodes."""

from __future__ import annotations

from typing import TypedDict

from statewright import StateGraph


class State(TypedDict):
    n: int


def is_done(state: State) -> bool:
    return state["n"] > 3


StateGraph(State).add_conditional_edges("work", is_done)  # pyright=reportArgumentType mypy=arg-type
