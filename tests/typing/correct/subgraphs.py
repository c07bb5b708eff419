"""Compiled graphs as nodes, and called inside nodes."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from statewright import START, CompiledGraph, InMemorySaver, StateGraph


class Inner(TypedDict):
    log: Annotated[list[str], operator.add]
    secret: str


class Outer(TypedDict):
    log: Annotated[list[str], operator.add]


def hide(state: Inner) -> dict[str, Any]:
    return {"log": ["inner"], "secret": "s"}


inner = StateGraph(Inner).add_node(hide).add_edge(START, "hide").compile()


def call(state: Outer) -> dict[str, Any]:
    result = inner.invoke({"log": []}, memory="none")
    return {"log": [f"called {result['secret']}"]}


def build() -> CompiledGraph[Outer]:
    graph = StateGraph(Outer).add_node("inner", inner, memory="thread").add_node(call)
    return graph.add_sequence(["inner", "call"]).add_edge(START, "inner").compile(InMemorySaver())


def main() -> None:
    app = build()
    assert app.invoke({"log": []}, thread_id="1")["log"] == ["inner", "called s"]
    assert [name for name, _ in app.get_subgraphs()] == ["inner"]
