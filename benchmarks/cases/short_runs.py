"""One run of two nodes, the loop with one iteration: the cost of a run before its first and after its last step."""

from collections.abc import Awaitable, Callable
from functools import partial

from benchmarks.cases.loop import add, add_async, graph_app, start, sum_up, sum_up_async
from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtLeast
from benchmarks.timing import per_await, per_call, repeat_async, repeat_sync

RUNS = 200


def invokes(load: EngineLoader) -> Callable[[], object]:
    app = graph_app(load, add, sum_up)
    return repeat_sync(lambda: app.invoke(start(steps=2)), RUNS)


def ainvokes(load: EngineLoader) -> Callable[[], Awaitable[object]]:
    app = graph_app(load, add_async, sum_up_async)
    return repeat_async(lambda: app.ainvoke(start(steps=2)), RUNS)


FIGURES = (
    Figure(
        name="one run of 2 nodes, sync",
        unit="µs/run",
        ours=per_call(partial(invokes, statewright), RUNS),
        rivals=(Rival(name="LangGraph", take=per_call(partial(invokes, langgraph), RUNS), requirement=AtLeast(45)),),
    ),
    Figure(
        name="one run of 2 nodes, async",
        unit="µs/run",
        ours=per_await(partial(ainvokes, statewright), RUNS),
        rivals=(Rival(name="LangGraph", take=per_await(partial(ainvokes, langgraph), RUNS), requirement=AtLeast(45)),),
    ),
)
