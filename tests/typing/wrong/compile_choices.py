"""Options of compile() with invalid values, and a saver of the wrong type."""

from __future__ import annotations

from statewright import InMemoryStore, StateGraph

graph = StateGraph({"n": int})
graph.compile(validate="always")  # pyright=reportArgumentType mypy=arg-type
graph.compile(unknown_keys="ignore")  # pyright=reportArgumentType mypy=arg-type
graph.compile(InMemoryStore())  # pyright=reportArgumentType mypy=arg-type
