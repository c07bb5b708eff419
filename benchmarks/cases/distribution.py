"""Fan-outs whose items run in other processes, compared with chunks that a program makes by hand.

The wall clock is measured, so the figures need a machine with nothing else to do. The pools are started before. A
million items are sent to a function that does next to nothing, so that the driver is what is measured.
"""

import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypedDict

from benchmarks.cases.fan_out import Gathered
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtMost, Within
from benchmarks.timing import per_call
from statewright import START, Send, StateGraph
from statewright.executors import ProcessExecutor, RayExecutor

SMALL_ITEMS = 10_000
CHUNK = 250
HEAVY_ITEMS = 60
HEAVY_SECONDS = 0.05
MANY_ITEMS, A_QUARTER = 1_000_000, 250_000
TRACED_ITEMS = 100_000
"""The memory of an item is that of a million, and tracing them takes half a minute."""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(item: int) -> dict[str, list[int]]:
    """Do what takes about 50 microseconds."""
    total = 0
    for number in range(1000):
        total += number * item
    return {"found": [total]}


class Mapped(TypedDict, total=False):
    """The state of a map: its items, and their results."""

    items: list[int]
    found: list[int]


def double(item: int) -> int:
    return item * 2


def compute(item: int) -> dict[str, list[int]]:
    """Use the processor for a while."""
    end = time.thread_time() + HEAVY_SECONDS
    while time.thread_time() < end:
        pass
    return {"found": [item]}


def work_on_all(items: list[int]) -> list[dict[str, list[int]]]:
    return [work(item) for item in items]


def fan_out(executor: Any, function: Callable[..., Any], width: int) -> Callable[[], object]:
    """Return a run that sends a number of items to a node on an executor, after one that starts its workers."""
    graph = StateGraph(Gathered).add_node("begin", lambda state: None).add_node("work", function, executor="pool")
    graph.add_edge(START, "begin")
    graph.add_conditional_edges("begin", lambda state: [Send("work", n) for n in range(state["width"])], ["work"])
    app = graph.compile(executors={"pool": executor})
    app.invoke({"width": 10 * CORES, "found": []})
    return lambda: app.invoke({"width": width, "found": []})


def mapped(executor: Any, width: int) -> Callable[[], object]:
    """Return a run that maps a function over a list with a number of items, after one that starts the workers."""
    graph = StateGraph(Mapped).add_map("work", double, over="items", into="found", executor="pool")
    app = graph.add_edge(START, "work").compile(executors={"pool": executor})
    app.invoke({"items": list(range(10 * CORES))})
    items = list(range(width))
    return lambda: app.invoke({"items": items})


def mapped_on_processes(width: int) -> Callable[[], object]:
    return mapped(ProcessExecutor(), width)


def processes(function: Callable[..., Any], width: int) -> Callable[[], object]:
    return fan_out(ProcessExecutor(), function, width)


def processes_by_hand() -> Callable[[], object]:
    pool = ProcessPoolExecutor(CORES)
    list(pool.map(work, range(10 * CORES)))
    return lambda: list(pool.map(work, range(SMALL_ITEMS), chunksize=CHUNK))


@cache
def connected_ray() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray: Any = import_module("ray")
    ray.init(num_cpus=CORES, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    return ray


def on_ray(function: Callable[..., Any], width: int) -> Callable[[], object]:
    connected_ray()
    return fan_out(RayExecutor(), function, width)


def mapped_on_ray(width: int) -> Callable[[], object]:
    connected_ray()
    return mapped(RayExecutor(), width)


def ray_by_hand() -> Callable[[], object]:
    ray = connected_ray()
    task = ray.remote(work_on_all)
    ray.get([task.remote([1]) for _ in range(2 * CORES)])
    starts = range(0, SMALL_ITEMS, CHUNK)
    return lambda: ray.get([task.remote(list(range(start, start + CHUNK))) for start in starts])


def driver_bytes(build: Callable[[int], Callable[[], object]], width: int) -> float:
    """Return the memory that the driver needs for an item at the peak, beside the items and the results.

    The items exist before. What is left after the run is its output: the results, and the list of the items.
    """
    run = build(width)
    gc.collect()
    tracemalloc.start()
    try:
        output = run()
        _, peak = tracemalloc.get_traced_memory()
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
        del output
    finally:
        tracemalloc.stop()
    return (peak - left) / width


IDEAL_MICROSECONDS = HEAVY_SECONDS * 1e6 / CORES
ALL_CORES = AtMost(IDEAL_MICROSECONDS / 0.9)


def figures_on(
    where: str,
    nodes: Callable[[Callable[..., Any], int], Callable[[], object]],
    maps: Callable[[int], Callable[[], object]],
    by_hand: Callable[[], Callable[[], object]],
    name_by_hand: str,
) -> tuple[Figure, ...]:
    """Return the figures of one executor: small items, heavy ones, and a million that need next to no time."""
    return (
        Figure(
            name=f"{SMALL_ITEMS:,} small items on {where}",
            unit="µs/item",
            ours=per_call(partial(nodes, work, SMALL_ITEMS), SMALL_ITEMS),
            rivals=(Rival(name=name_by_hand, take=per_call(by_hand, SMALL_ITEMS), requirement=Within(1.2)),),
        ),
        Figure(
            name=f"{HEAVY_ITEMS} items of {HEAVY_SECONDS * 1000:g} ms on {where}, all cores at 90 %",
            unit="µs/item",
            ours=per_call(partial(nodes, compute, HEAVY_ITEMS), HEAVY_ITEMS),
            limit=ALL_CORES,
        ),
        Figure(
            name=f"a map of {MANY_ITEMS:,} items on {where}",
            unit="µs/item",
            ours=per_call(partial(maps, MANY_ITEMS), MANY_ITEMS),
            rivals=(
                Rival(
                    name=f"itself of {A_QUARTER:,}",
                    take=per_call(partial(maps, A_QUARTER), A_QUARTER),
                    requirement=Within(1.2),
                ),
            ),
            is_long=True,
        ),
        Figure(
            name=f"a map of {TRACED_ITEMS:,} items on {where}, memory of the driver",
            unit="bytes/item",
            ours=partial(driver_bytes, maps, TRACED_ITEMS),
            limit=AtMost(300),
            is_repeated=False,
            is_long=True,
        ),
    )


FIGURES = (
    *figures_on("processes", processes, mapped_on_processes, processes_by_hand, "ProcessPoolExecutor, chunked by hand"),
    *(
        figures_on("Ray", on_ray, mapped_on_ray, ray_by_hand, "Ray, chunked by hand")
        if find_spec("ray") is not None
        else ()
    ),
)
