"""The cost of compiling a graph of a thousand nodes, including its validation but not building it."""

import time
from collections.abc import Callable
from typing import Any, TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtMost, Shown

NODES = 1000
MILLISECONDS = 1e3


class Count(TypedDict):
    """The state of the graph."""

    count: int


def node() -> Callable[[Count], Count]:
    """Return a separate function for each node, as in hand-written graphs."""

    def add(state: Count) -> Count:
        return {"count": state["count"] + 1}

    return add


def chain_builder(load: EngineLoader) -> Any:
    """Return the builder of a chain."""
    engine = load()
    graph = engine.StateGraph(Count)
    names = [f"node_{number}" for number in range(NODES)]
    for name in names:
        graph.add_node(name, node())
    for before, after in zip([engine.START, *names], [*names, engine.END], strict=True):
        graph.add_edge(before, after)
    return graph


def compiling(load: EngineLoader) -> Take:
    """Return the milliseconds to compile; with a new builder each time, because a builder may cache."""

    def take() -> float:
        graph = chain_builder(load)
        started_at = time.perf_counter()
        graph.compile()
        return (time.perf_counter() - started_at) * MILLISECONDS

    return take


FIGURES = (
    Figure(
        name="compile 1000 nodes, strict",
        unit="ms",
        ours=compiling(statewright),
        rivals=(Rival(name="LangGraph", take=compiling(langgraph), requirement=Shown()),),
        limit=AtMost(15),
    ),
)
