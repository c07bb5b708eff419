"""A node that returns a string although the state is a number."""

from __future__ import annotations

from statewright import StateGraph


def describe(number: int) -> str:
    return str(number)


StateGraph(int).add_node("describe", describe)  # pyright=reportArgumentType mypy=arg-type
