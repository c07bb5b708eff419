"""Graphs in annotations of functions: with all type parameters, with some, with none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from statewright import START, CompiledGraph, GraphBuilder, MessagesState, Runtime, StateGraph, entrypoint
from statewright.runtime import GraphOutput, StateSnapshot


class State(TypedDict):
    n: int


@dataclass
class Context:
    step: int


def add(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"n": state["n"] + runtime.context.step}


def build() -> StateGraph[State, Context]:
    return StateGraph[State, Context](State, Context).add_node(add).add_edge(START, "add")


def run(app: CompiledGraph[State, Context], step: int) -> GraphOutput[State]:
    return app.invoke({"n": 1}, context=Context(step), version="v2")


def describe(app: CompiledGraph) -> str:
    snapshot: StateSnapshot | None = None
    return f"{app.name}: {snapshot}"


def finish(graph: GraphBuilder[State, Any]) -> None:
    graph.set_finish_point("add")


class Desk:
    app: CompiledGraph[State, Context]

    def __init__(self) -> None:
        graph = build()
        finish(graph)
        self.app = graph.compile(name="desk")


@entrypoint()
def twice(number: int) -> int:
    return number * 2


def main() -> None:
    desk = Desk()
    assert run(desk.app, 4).value["n"] == 5
    assert describe(desk.app) == "desk: None"
    assert describe(twice) == "twice: None"
    assert describe(StateGraph(MessagesState).add_node("a", lambda state: None).add_edge(START, "a").compile())
