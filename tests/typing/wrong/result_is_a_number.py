"""A node that returns a number although the state has fields."""

from __future__ import annotations

from typing import TypedDict

from statewright import StateGraph


class State(TypedDict):
    n: int


def count(state: State) -> int:
    return state["n"] + 1


async def name(state: State) -> str:
    return str(state["n"])


graph = StateGraph(State)
graph.add_node("count", count)  # pyright=reportArgumentType mypy=arg-type
graph.add_node(name)  # pyright=reportArgumentType mypy=arg-type
