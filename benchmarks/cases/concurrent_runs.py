"""Two hundred runs of a chain of twenty nodes at once, in one event loop; every node yields to the loop once."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.cases.chain import Tally, chain_app
from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtLeast, Shown
from benchmarks.timing import per_await

RUNS = 200
STEPS = 20


async def count_after_yield(state: Tally) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"count": state["count"] + 1}


def together(run: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    return lambda: asyncio.gather(*(run() for _ in range(RUNS)))


def graph_runs(load: EngineLoader) -> Callable[[], Awaitable[object]]:
    app = chain_app(load, Tally, [count_after_yield] * STEPS)
    return together(lambda: app.ainvoke({"count": 0, "total": 0, "note": ""}))


def pydantic_graph_runs() -> Callable[[], Awaitable[object]]:
    from pydantic_graph import GraphBuilder, StepContext

    async def give_way(ctx: StepContext[None, None, int]) -> int:
        await asyncio.sleep(0)
        return ctx.inputs + 1

    builder = GraphBuilder(input_type=int, output_type=int, auto_instrument=False)
    steps = [builder.step(give_way, node_id=f"node_{number}") for number in range(STEPS)]
    for before, after in zip([builder.start_node, *steps], [*steps, builder.end_node], strict=True):
        builder.add_edge(before, after)
    graph = builder.build()
    return together(lambda: graph.run(inputs=0))


FIGURES = (
    Figure(
        name="200 runs of 20 steps at once",
        unit="µs/run",
        ours=per_await(partial(graph_runs, statewright), RUNS),
        rivals=(
            Rival(name="LangGraph", take=per_await(partial(graph_runs, langgraph), RUNS), requirement=AtLeast(50)),
            Rival(name="pydantic-graph", take=per_await(pydantic_graph_runs, RUNS), requirement=Shown()),
        ),
    ),
)
