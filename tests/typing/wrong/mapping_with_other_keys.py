"""A mapping with string keys although the function returns booleans."""

from __future__ import annotations

from typing import TypedDict

from statewright import END, StateGraph


class State(TypedDict):
    n: int


def is_done(state: State) -> bool:
    return state["n"] > 3


TARGETS = {"yes": END, "no": "work"}
StateGraph(State).add_conditional_edges("work", is_done, TARGETS)  # pyright=reportArgumentType mypy=arg-type
