"""The cost that features add to a step that uses them: a subgraph call, policies, a stream, a task of an entrypoint.

Each row compares our figure with the feature to our own without it; LangGraph's is shown for the subgraph.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks.cases.loop import STEPS, Tally, add, add_async, again, start, sum_up, sum_up_async
from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtMost, NoMoreThan, Shown
from benchmarks.timing import per_await, per_call

CALLS = 1000


def looping(load: EngineLoader, first: Any, second: Any, **options: Any) -> Any:
    """Return the compiled loop of two nodes; the options are those of the first node."""
    engine = load()
    graph = engine.StateGraph(Tally)
    graph.add_node("add", first, **options)
    graph.add_node("sum_up", second)
    graph.add_edge(engine.START, "add")
    graph.add_edge("add", "sum_up")
    graph.add_conditional_edges("sum_up", again, {"again": "add", "end": engine.END})
    return graph.compile()


def run_sync(app: Any, steps: int = STEPS) -> Callable[[], object]:
    return lambda: app.invoke(start(steps), {"recursion_limit": steps + 10})


def run_async(app: Any, steps: int = STEPS) -> Callable[[], Awaitable[object]]:
    return lambda: app.ainvoke(start(steps), {"recursion_limit": steps + 10})


def child(load: EngineLoader, node: Any) -> Any:
    engine = load()
    graph = engine.StateGraph(Tally)
    graph.add_node("inside", node)
    graph.add_edge(engine.START, "inside")
    return graph.compile()


def with_subgraph(load: EngineLoader) -> Callable[[], object]:
    """Return a run of the loop whose first node is a graph of one node."""
    return run_sync(looping(load, child(load, add), sum_up))


def with_subgraph_async(load: EngineLoader) -> Callable[[], Awaitable[object]]:
    return run_async(looping(load, child(load, add_async), sum_up_async))


def plain() -> Callable[[], object]:
    return run_sync(looping(statewright, add, sum_up))


def plain_async() -> Callable[[], Awaitable[object]]:
    return run_async(looping(statewright, add_async, sum_up_async))


def with_retries() -> Callable[[], object]:
    from statewright import RetryPolicy

    return run_sync(looping(statewright, add, sum_up, retry_policy=RetryPolicy()))


def with_policies_async() -> Callable[[], Awaitable[object]]:
    from statewright import RetryPolicy

    return run_async(looping(statewright, add_async, sum_up_async, retry_policy=RetryPolicy(), timeout=60))


def run_streamed() -> Callable[[], object]:
    app = looping(statewright, add, sum_up)

    def read() -> None:
        for _ in app.stream(start(STEPS), {"recursion_limit": STEPS + 10}, stream_mode="updates"):
            pass

    return read


def calls() -> Callable[[], object]:
    """Return a run of an entrypoint that calls a plain task repeatedly."""
    from statewright import entrypoint, task

    @task
    def double(x: int) -> int:
        return x * 2

    @entrypoint()
    def flow(count: int) -> None:
        for number in range(count):
            double(number).result()

    return lambda: flow.invoke(CALLS)


def calls_async() -> Callable[[], Awaitable[object]]:
    from statewright import entrypoint, task

    @task
    async def double(x: int) -> int:
        return x * 2

    @entrypoint()
    async def flow(count: int) -> None:
        for number in range(count):
            await double(number)

    return lambda: flow.ainvoke(CALLS)


def langgraph_calls_async() -> Callable[[], Awaitable[object]]:
    from langgraph.func import entrypoint, task

    @task
    async def double(x: int) -> int:
        await asyncio.sleep(0)
        return x * 2

    @entrypoint()
    async def flow(count: int) -> None:
        for number in range(count):
            await double(number)

    return lambda: flow.ainvoke(CALLS)


WITHOUT = "itself without"
HALF = STEPS // 2
FIGURES = (
    Figure(
        name="a subgraph of one node as every second node, sync",
        unit="µs/call",
        ours=per_call(partial(with_subgraph, statewright), HALF),
        rivals=(
            Rival(name=WITHOUT, take=per_call(plain, HALF), requirement=NoMoreThan(25)),
            Rival(name="LangGraph", take=per_call(partial(with_subgraph, langgraph), HALF), requirement=Shown()),
        ),
    ),
    Figure(
        name="a subgraph of one node as every second node, async",
        unit="µs/call",
        ours=per_await(partial(with_subgraph_async, statewright), HALF),
        rivals=(
            Rival(name=WITHOUT, take=per_await(plain_async, HALF), requirement=NoMoreThan(25)),
            Rival(name="LangGraph", take=per_await(partial(with_subgraph_async, langgraph), HALF), requirement=Shown()),
        ),
    ),
    Figure(
        name="a retry policy on every second node, sync",
        unit="µs/task",
        ours=per_call(with_retries, HALF),
        rivals=(Rival(name=WITHOUT, take=per_call(plain, HALF), requirement=NoMoreThan(6)),),
    ),
    Figure(
        name="retry and timeout policies on every second node, async",
        unit="µs/task",
        ours=per_await(with_policies_async, HALF),
        rivals=(Rival(name=WITHOUT, take=per_await(plain_async, HALF), requirement=NoMoreThan(6)),),
    ),
    Figure(
        name="updates streamed, sync",
        unit="µs/task",
        ours=per_call(run_streamed, STEPS),
        rivals=(Rival(name=WITHOUT, take=per_call(plain, STEPS), requirement=NoMoreThan(3)),),
    ),
    Figure(name="call of a plain @task, sync", unit="µs/call", ours=per_call(calls, CALLS), limit=AtMost(15)),
    Figure(
        name="call of a coroutine @task, async",
        unit="µs/call",
        ours=per_await(calls_async, CALLS),
        rivals=(Rival(name="LangGraph", take=per_await(langgraph_calls_async, CALLS), requirement=Shown()),),
        limit=AtMost(15),
    ),
)
