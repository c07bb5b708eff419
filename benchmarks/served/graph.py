"""The graph that both servers offer: three trivial steps."""

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from benchmarks.engines import Engine


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


def three_steps(engine: Engine) -> Any:
    """Return a chain of three coroutines."""
    graph = engine.StateGraph(State)
    names = ("enrich", "draft", "send")
    for name in names:
        graph.add_node(name, _node(name))
    for before, after in zip((engine.START, *names), (*names, engine.END), strict=True):
        graph.add_edge(before, after)
    return graph


def _node(name: str) -> Callable[[State], Any]:
    async def step(state: State) -> dict[str, Any]:
        return {"log": [name]}

    return step
