"""A chain of nodes, one superstep each: the cost of a step in a large graph or with a wide state.

Peers pay for every channel in every step; here a step must cost the same whatever surrounds it.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, Shown, Within
from benchmarks.timing import per_call

WIDE_KEYS = 300


class Tally(TypedDict):
    """The state of the long chain."""

    count: int
    total: int
    note: str


WideState = TypedDict("WideState", {f"key_{number}": int for number in range(WIDE_KEYS)})


def add(state: Tally) -> dict[str, int]:
    return {"count": state["count"] + 1}


def add_to(key: str) -> Callable[[dict[str, int]], dict[str, int]]:
    """Return a node that counts in its own key."""

    def add(state: dict[str, int]) -> dict[str, int]:
        return {key: state[key] + 1}

    return add


def chain_app(load: EngineLoader, schema: type, nodes: list[Callable[..., Any]]) -> Any:
    """Return a compiled chain of nodes."""
    engine = load()
    graph = engine.StateGraph(schema)
    names = [f"node_{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([engine.START, *names], [*names, engine.END], strict=True):
        graph.add_edge(before, after)
    return graph.compile()


def long_chain(load: EngineLoader, length: int) -> Callable[[], object]:
    app = chain_app(load, Tally, [add] * length)
    return lambda: app.invoke({"count": 0, "total": 0, "note": ""}, {"recursion_limit": length + 10})


def wide_chain(load: EngineLoader) -> Callable[[], object]:
    app = chain_app(load, WideState, [add_to(key) for key in WideState.__annotations__])
    return lambda: app.invoke(dict.fromkeys(WideState.__annotations__, 0), {"recursion_limit": WIDE_KEYS + 10})


def burr_chain(length: int) -> Callable[[], object]:
    from burr.core import ApplicationBuilder, State, action

    @action(reads=["count"], writes=["count"])
    def add(state: State) -> State:
        return state.update(count=state["count"] + 1)

    names = [f"node_{number}" for number in range(length)]
    builder = ApplicationBuilder().with_actions(**dict.fromkeys(names, add)).with_entrypoint(names[0])
    builder = builder.with_transitions(*pairwise(names))
    app = builder.with_state(count=0, total=0, note="").build()

    def run() -> object:
        app.reset_to_entrypoint()
        return app.run(halt_after=[names[-1]])

    return run


def _ours(length: int) -> Take:
    return per_call(partial(long_chain, statewright, length), length)


FIGURES = (
    Figure(
        name="chain of 1000 nodes, sync",
        unit="µs/step",
        ours=_ours(1000),
        rivals=(
            Rival(name="LangGraph", take=per_call(partial(long_chain, langgraph, 1000), 1000), requirement=AtLeast(70)),
            Rival(name="Burr", take=per_call(partial(burr_chain, 1000), 1000), requirement=Shown()),
            Rival(name="itself with 100 nodes", take=_ours(100), requirement=Within(1.25)),
        ),
    ),
    Figure(
        name="chain of 10 000 nodes, sync",
        unit="µs/step",
        ours=_ours(10_000),
        rivals=(Rival(name="itself with 100 nodes", take=_ours(100), requirement=Within(1.25)),),
    ),
    Figure(
        name="chain of 300 nodes over 300 keys, sync",
        unit="µs/step",
        ours=per_call(partial(wide_chain, statewright), WIDE_KEYS),
        rivals=(
            Rival(name="LangGraph", take=per_call(partial(wide_chain, langgraph), WIDE_KEYS), requirement=AtLeast(60)),
        ),
    ),
)
