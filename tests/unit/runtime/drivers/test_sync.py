"""The driver of plain calls: lanes of nodes, readers and cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from statewright import START, InMemorySaver, RunControl, StateGraph, append
from statewright.errors import RunCancelled
from statewright.runtime.core.program import Lane
from statewright.runtime.drivers.sync import drive_sync, indices_by_lane
from statewright.runtime.lifecycle.turn import run_until_idle
from statewright.runtime.tasks.scope import current_scope

TIMEOUT = 600.0
SCHEMA = {"log": append, "x": int}
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")
Location = tuple[threading.Thread, "asyncio.AbstractEventLoop | None"]


def current_location() -> Location:
    """Return the current thread and its running loop."""
    try:
        return threading.current_thread(), asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread(), None


def locating_node(locations: list[Location]) -> Callable[[Any], None]:
    return lambda state: locations.append(current_location())


def locating_coroutine(locations: list[Location]) -> Callable[[Any], Any]:
    async def node(state: Any) -> None:
        locations.append(current_location())

    return node


def graph(**functions: Callable[..., Any]) -> StateGraph:
    """Return a graph that starts with all functions."""
    builder = StateGraph(SCHEMA)
    for name, function in functions.items():
        builder.add_node(name, function).add_edge(START, name)
    return builder


# -- where nodes run


def test_a_single_plain_function_runs_in_the_thread_of_the_caller() -> None:
    locations: list[Location] = []
    graph(a=locating_node(locations)).compile().invoke({})
    assert locations == [(threading.current_thread(), None)]


def test_concurrent_plain_functions_run_in_threads() -> None:
    barrier, locations = threading.Barrier(3), list[Location]()

    def node(state: Any) -> None:
        barrier.wait(TIMEOUT)
        locations.append(current_location())

    graph(a=node, b=node, c=node).compile().invoke({})
    assert len({thread for thread, _ in locations}) == 3
    assert threading.current_thread() not in {thread for thread, _ in locations}


@pytest.mark.parametrize("concurrent", [False, True])
def test_coroutines_run_on_a_private_loop(concurrent: bool) -> None:
    locations: list[Location] = []
    node = locating_coroutine(locations)
    graph(**{"a": node, "b": node} if concurrent else {"a": node}).compile().invoke({})
    assert all(loop is not None and thread is not threading.current_thread() for thread, loop in locations)
    assert len({loop for _, loop in locations}) == 1


def test_inline_nodes_run_in_the_thread_of_the_caller_among_others() -> None:
    locations: list[Location] = []
    builder = graph(other=lambda state: None).add_node("a", locating_node(locations), inline=True).add_edge(START, "a")
    builder.compile().invoke({})
    assert locations == [(threading.current_thread(), None)]


def test_a_run_inside_a_running_loop_uses_another_loop() -> None:
    locations: list[Location] = []

    async def main() -> asyncio.AbstractEventLoop:
        graph(a=locating_coroutine(locations)).compile().invoke({})
        return asyncio.get_running_loop()

    running = asyncio.run(main())
    assert locations[0][1] is not None
    assert locations[0][1] is not running


def test_a_coroutine_node_can_invoke_a_graph_of_coroutines() -> None:
    async def inner(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": 7}

    subgraph = graph(inner=inner).compile()

    async def outer(state: Any) -> dict[str, Any]:
        return subgraph.invoke({})

    assert graph(outer=outer).compile().invoke({})["x"] == 7


@pytest.mark.parametrize("single", [True, False])
def test_nodes_see_the_context_variables_of_the_caller(single: bool) -> None:
    seen: list[str] = []

    def read_context(state: Any) -> None:
        seen.append(CURRENT.get())

    async def read_context_async(state: Any) -> None:
        seen.append(CURRENT.get())

    def run() -> None:
        CURRENT.set("the caller")
        if single:
            graph(a=read_context).compile().invoke({})
            graph(a=read_context_async).compile().invoke({})
        else:
            graph(a=read_context, b=read_context_async).compile().invoke({})

    contextvars.copy_context().run(run)
    assert seen == ["the caller"] * 2


def test_the_scope_is_left_after_a_failed_run() -> None:
    app = graph(a=lambda state: None).add_node("b", lambda state: 1 / 0).add_edge("a", "b").compile()
    before = current_scope()
    with pytest.raises(ZeroDivisionError):
        app.invoke({})
    assert current_scope() is before


# -- the lanes of a superstep


@pytest.mark.parametrize(
    ("lanes", "limit", "expected"),
    [
        (["thread", "thread"], None, {"thread": [0, 1]}),
        (["thread", "thread"], 1, {"thread": [0, 1]}),
        (["loop"], None, {"loop": [0]}),
        (["inline", "inline"], 1, {"inline": [0, 1]}),
        (["thread", "loop", "thread"], None, {"loop": [1], "thread": [0, 2]}),
        (["thread", "loop", "thread"], 3, {"loop": [1], "thread": [0, 2]}),
        (["thread", "loop", "thread"], 2, {"loop": [0, 1, 2]}),
        (["thread", "inline", "loop"], None, {"inline": [1], "loop": [2], "thread": [0]}),
        (["thread", "inline", "loop"], 2, {"inline": [1], "loop": [0, 2]}),
        (["thread", "inline"], 1, {"inline": [1], "loop": [0]}),
    ],
)
def test_indices_by_lane_moves_threads_to_the_loop_to_keep_the_limit(
    lanes: list[Lane], limit: int | None, expected: dict[Lane, list[int]]
) -> None:
    assert {lane: list(indices) for lane, indices in indices_by_lane(lanes, limit).items()} == expected


def test_max_concurrency_limits_plain_functions_and_coroutines_together() -> None:
    lock, running_count, most = threading.Lock(), 0, 0

    def enter(step: int) -> None:
        nonlocal running_count, most
        with lock:
            running_count += step
            most = max(most, running_count)

    def plain(state: Any) -> None:
        enter(1)
        threading.Event().wait(0.001)
        enter(-1)

    async def coroutine(state: Any) -> None:
        enter(1)
        await asyncio.sleep(0.001)
        enter(-1)

    functions = {f"n{number}": coroutine if number % 2 else plain for number in range(8)}
    graph(**functions).compile().invoke({}, max_concurrency=2)
    assert 1 <= most <= 2


# -- readers


def test_the_driver_is_a_generator_that_sets_the_outcome(make: Any) -> None:
    run = make.run(make.program(graph(a=lambda state: {"log": ["a"]})))
    parts = drive_sync(run, run_until_idle(run, {"x": 1}))
    assert run.outcome is None
    assert list(parts) == []
    assert (run.outcome.status, run.outcome.checkpoint.values) == ("completed", {"x": 1, "log": ["a"]})


def test_a_run_advances_only_when_a_part_is_read() -> None:
    ran: list[str] = []
    builder = graph(a=lambda state: ran.append("a")).add_node("b", lambda state: ran.append("b")).add_edge("a", "b")
    parts = builder.compile().stream({}, stream_mode="values")
    assert ran == []
    next(parts)
    assert ran == []
    next(parts)
    assert ran == ["a"]
    assert len(list(parts)) == 1
    assert ran == ["a", "b"]


def test_the_reader_is_outside_the_scope_of_the_run() -> None:
    scopes: list[Any] = []
    builder = graph(a=lambda state: {"x": 1}, b=lambda state: {"log": [1]})
    for _ in builder.compile().stream({}, stream_mode=["updates", "tasks", "values"]):
        scopes.append(current_scope())
    assert scopes
    assert set(scopes) == {None}


def test_custom_parts_of_a_single_node_arrive_while_it_runs() -> None:
    from statewright import Runtime

    received = threading.Event()

    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("hello")
        return {"log": [received.wait(TIMEOUT)]}

    parts: list[Any] = []
    for part in graph(a=node).compile().stream({}, stream_mode=["custom", "updates"]):
        parts.append(part)
        received.set()
    assert parts == [("custom", "hello"), ("updates", {"a": {"log": [True]}})]


@pytest.mark.parametrize("method", ["close", "delete"])
def test_an_abandoned_stream_runs_no_further_superstep(method: str) -> None:
    ran: list[str] = []
    builder = graph(a=lambda state: ran.append("a")).add_node("b", lambda state: ran.append("b")).add_edge("a", "b")
    parts = builder.compile().stream({}, stream_mode="tasks")
    next(parts)
    if method == "close":
        parts.close()
    else:
        del parts
        gc.collect()
    assert ran == ["a"]
    assert current_scope() is None


def test_a_thread_of_an_abandoned_stream_can_be_continued() -> None:
    builder = graph(a=lambda state: {"log": ["a"]}).add_node("b", lambda state: {"log": ["b"]}).add_edge("a", "b")
    app = builder.compile(InMemorySaver())
    parts = app.stream({}, thread_id="1")
    assert next(parts) == {"a": {"log": ["a"]}}
    parts.close()
    assert app.invoke(None, thread_id="1")["log"] == ["a", "b"]


# -- cancellation


def test_a_cancelled_run_does_not_wait_for_plain_functions() -> None:
    control, proceed, ended = RunControl(), threading.Event(), threading.Event()

    def slow(state: Any) -> dict[str, Any]:
        proceed.wait(TIMEOUT)
        ended.set()
        return {"log": ["too late"]}

    def cancel(state: Any) -> dict[str, Any]:
        control.request_cancel("enough")
        return {"log": ["cancelled"]}

    app = graph(slow=slow, cancel=cancel).compile(InMemorySaver())
    with pytest.raises(RunCancelled, match="enough"):
        app.invoke({}, thread_id="1", control=control)
    assert not ended.is_set()
    proceed.set()
    assert ended.wait(TIMEOUT)
    assert "too late" not in app.get_state(thread_id="1").values.get("log", [])


def test_a_cancelled_run_waits_for_the_cleanup_of_its_coroutines() -> None:
    control, cleaned = RunControl(), list[str]()

    async def forever(state: Any) -> None:
        try:
            control.request_cancel("enough")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            cleaned.append("clean")

    async def other(state: Any) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RunCancelled, match="enough"):
        graph(forever=forever, other=other).compile().invoke({}, control=control)
    assert cleaned == ["clean"]


def test_a_failure_is_raised_after_concurrent_coroutines_were_cancelled() -> None:
    cleaned, waiting = list[str](), threading.Event()

    async def forever(state: Any) -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append("clean")

    def fail(state: Any) -> None:
        waiting.wait(TIMEOUT)
        raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        graph(forever=forever, fail=fail).compile().invoke({})
    assert cleaned == ["clean"]
