"""Options of a node with invalid values."""

from __future__ import annotations

from typing import Any

from statewright import StateGraph


def work(state: dict[str, Any]) -> None: ...


graph = StateGraph({"n": int})
graph.add_node(work, join="all")  # pyright=reportArgumentType mypy=call-overload
graph.add_node("b", work, memory="always")  # pyright=reportArgumentType mypy=call-overload
