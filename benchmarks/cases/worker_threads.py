"""Plain functions under `ainvoke` go to a worker thread, so that they never block the loop.

The floor is asyncio's own `run_in_executor` with the same function; what we add to it is the figure. Measured on one
core if the system allows it, because otherwise the figure depends on the core on which the worker wakes (40 to 70 µs).
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import NoMoreThan, Shown
from benchmarks.timing import per_await

STEPS = 1000


class Count(TypedDict):
    """The state of the loop."""

    count: int


def add(state: Count) -> Count:
    return {"count": state["count"] + 1}


def again(state: Count) -> str:
    return "again" if state["count"] < STEPS else "end"


def threaded_loop(load: EngineLoader) -> Callable[[], Awaitable[object]]:
    engine = load()
    graph = engine.StateGraph(Count)
    graph.add_node("add", add)
    graph.add_edge(engine.START, "add")
    graph.add_conditional_edges("add", again, {"again": "add", "end": engine.END})
    app = graph.compile()
    return on_one_core(lambda: app.ainvoke({"count": 0}, {"recursion_limit": STEPS + 10}))


def bare_executor() -> Callable[[], Awaitable[object]]:
    async def run() -> Count:
        loop = asyncio.get_running_loop()
        state = Count(count=0)
        for _ in range(STEPS):
            state = await loop.run_in_executor(None, add, state)
        return state

    return on_one_core(run)


def on_one_core(run: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
    """Return the same run, with the loop and its threads pinned to one core."""

    async def run_pinned() -> None:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            await run()
        finally:
            os.sched_setaffinity(0, cores)

    return run_pinned if hasattr(os, "sched_setaffinity") else run


FIGURES = (
    Figure(
        name="loop of 1 plain function, async",
        unit="µs/step",
        ours=per_await(partial(threaded_loop, statewright), STEPS),
        rivals=(
            Rival(name="bare run_in_executor", take=per_await(bare_executor, STEPS), requirement=NoMoreThan(5)),
            Rival(name="LangGraph", take=per_await(partial(threaded_loop, langgraph), STEPS), requirement=Shown()),
        ),
    ),
)
