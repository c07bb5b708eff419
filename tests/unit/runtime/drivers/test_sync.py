"""The driver of plain calls: where nodes run, how a reader drives it, and what it leaves behind."""

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

LONG = 600.0
SCHEMA = {"log": append, "x": int}
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
Place = tuple[threading.Thread, "asyncio.AbstractEventLoop | None"]


def where() -> Place:
    """The thread of the caller, and its running loop."""
    try:
        return threading.current_thread(), asyncio.get_running_loop()
    except RuntimeError:
        return threading.current_thread(), None


def place_of(found: list[Place]) -> Callable[[Any], None]:
    return lambda state: found.append(where())


def coroutine_place_of(found: list[Place]) -> Callable[[Any], Any]:
    async def node(state: Any) -> None:
        found.append(where())

    return node


def graph(**functions: Callable[..., Any]) -> StateGraph:
    """A graph that starts with each of the functions."""
    built = StateGraph(SCHEMA)
    for name, function in functions.items():
        built.add_node(name, function).add_edge(START, name)
    return built


# -- where nodes run


def test_a_lone_plain_function_is_called_on_the_thread_of_the_caller() -> None:
    found: list[Place] = []
    graph(a=place_of(found)).compile().invoke({})
    assert found == [(threading.current_thread(), None)]


def test_plain_functions_beside_each_other_run_on_threads() -> None:
    together, found = threading.Barrier(3), list[Place]()

    def node(state: Any) -> None:
        together.wait(LONG)
        found.append(where())

    graph(a=node, b=node, c=node).compile().invoke({})
    assert len({thread for thread, _ in found}) == 3
    assert threading.current_thread() not in {thread for thread, _ in found}


@pytest.mark.parametrize("beside", [False, True])
def test_coroutines_run_on_a_loop_of_ours(beside: bool) -> None:
    found: list[Place] = []
    node = coroutine_place_of(found)
    graph(**{"a": node, "b": node} if beside else {"a": node}).compile().invoke({})
    assert all(loop is not None and thread is not threading.current_thread() for thread, loop in found)
    assert len({loop for _, loop in found}) == 1


def test_inline_nodes_run_on_the_thread_of_the_caller_beside_others_too() -> None:
    found: list[Place] = []
    built = graph(other=lambda state: None).add_node("a", place_of(found), inline=True).add_edge(START, "a")
    built.compile().invoke({})
    assert found == [(threading.current_thread(), None)]


def test_a_run_inside_a_running_loop_does_not_use_that_loop() -> None:
    found: list[Place] = []

    async def main() -> asyncio.AbstractEventLoop:
        graph(a=coroutine_place_of(found)).compile().invoke({})
        return asyncio.get_running_loop()

    running = asyncio.run(main())
    assert found[0][1] is not None
    assert found[0][1] is not running


def test_a_coroutine_node_may_call_a_graph_of_coroutines_without_an_event_loop() -> None:
    async def inner(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": 7}

    called = graph(inner=inner).compile()

    async def outer(state: Any) -> dict[str, Any]:
        return called.invoke({})

    assert graph(outer=outer).compile().invoke({})["x"] == 7


@pytest.mark.parametrize("lone", [True, False])
def test_nodes_see_the_context_of_the_caller(lone: bool) -> None:
    seen: list[str] = []

    def look(state: Any) -> None:
        seen.append(WHO.get())

    async def look_too(state: Any) -> None:
        seen.append(WHO.get())

    def run() -> None:
        WHO.set("the caller")
        if lone:
            graph(a=look).compile().invoke({})
            graph(a=look_too).compile().invoke({})
        else:
            graph(a=look, b=look_too).compile().invoke({})

    contextvars.copy_context().run(run)
    assert seen == ["the caller"] * 2


def test_no_scope_is_left_behind() -> None:
    app = graph(a=lambda state: None).add_node("b", lambda state: 1 / 0).add_edge("a", "b").compile()
    before = current_scope()
    with pytest.raises(ZeroDivisionError):
        app.invoke({})
    assert current_scope() is before


# -- the lanes of a superstep


@pytest.mark.parametrize(
    ("lanes", "limit", "found"),
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
def test_indices_by_lane(lanes: list[Lane], limit: int | None, found: dict[Lane, list[int]]) -> None:
    assert {lane: list(indices) for lane, indices in indices_by_lane(lanes, limit).items()} == found


def test_a_limit_holds_over_plain_functions_and_coroutines_together() -> None:
    lock, flying, most = threading.Lock(), 0, 0

    def enter(step: int) -> None:
        nonlocal flying, most
        with lock:
            flying += step
            most = max(most, flying)

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


# -- reading drives


def test_the_driver_is_a_generator_that_ends_at_rest(make: Any) -> None:
    run = make.run(make.program(graph(a=lambda state: {"log": ["a"]})))
    parts = drive_sync(run, run_until_idle(run, {"x": 1}))
    assert run.outcome is None
    assert list(parts) == []
    assert (run.outcome.status, run.outcome.checkpoint.values) == ("completed", {"x": 1, "log": ["a"]})


def test_nothing_runs_until_the_reader_asks_for_it() -> None:
    ran: list[str] = []
    built = graph(a=lambda state: ran.append("a")).add_node("b", lambda state: ran.append("b")).add_edge("a", "b")
    parts = built.compile().stream({}, stream_mode="values")
    assert ran == []
    next(parts)
    assert ran == []
    next(parts)
    assert ran == ["a"]
    assert len(list(parts)) == 1
    assert ran == ["a", "b"]


def test_the_reader_is_no_part_of_the_run() -> None:
    scopes: list[Any] = []
    built = graph(a=lambda state: {"x": 1}, b=lambda state: {"log": [1]})
    for _ in built.compile().stream({}, stream_mode=["updates", "tasks", "values"]):
        scopes.append(current_scope())
    assert scopes
    assert set(scopes) == {None}


def test_what_a_lone_node_says_reaches_a_reader_while_it_runs() -> None:
    from statewright import Runtime

    heard = threading.Event()

    def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("hello")
        return {"log": [heard.wait(LONG)]}

    parts: list[Any] = []
    for part in graph(a=node).compile().stream({}, stream_mode=["custom", "updates"]):
        parts.append(part)
        heard.set()
    assert parts == [("custom", "hello"), ("updates", {"a": {"log": [True]}})]


@pytest.mark.parametrize("how", ["close", "forget"])
def test_a_stream_that_is_abandoned_between_supersteps_runs_no_further(how: str) -> None:
    ran: list[str] = []
    built = graph(a=lambda state: ran.append("a")).add_node("b", lambda state: ran.append("b")).add_edge("a", "b")
    parts = built.compile().stream({}, stream_mode="tasks")
    next(parts)
    if how == "close":
        parts.close()
    else:
        del parts
        gc.collect()
    assert ran == ["a"]
    assert current_scope() is None


def test_an_abandoned_thread_can_be_gone_on_with() -> None:
    built = graph(a=lambda state: {"log": ["a"]}).add_node("b", lambda state: {"log": ["b"]}).add_edge("a", "b")
    app = built.compile(InMemorySaver())
    parts = app.stream({}, thread_id="1")
    assert next(parts) == {"a": {"log": ["a"]}}
    parts.close()
    assert app.invoke(None, thread_id="1")["log"] == ["a", "b"]


# -- being stopped


def test_a_cancelled_run_does_not_wait_for_plain_functions() -> None:
    control, go_on, ended = RunControl(), threading.Event(), threading.Event()

    def slow(state: Any) -> dict[str, Any]:
        go_on.wait(LONG)
        ended.set()
        return {"log": ["too late"]}

    def cancel(state: Any) -> dict[str, Any]:
        control.request_cancel("enough")
        return {"log": ["cancelled"]}

    app = graph(slow=slow, cancel=cancel).compile(InMemorySaver())
    with pytest.raises(RunCancelled, match="enough"):
        app.invoke({}, thread_id="1", control=control)
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(LONG)
    assert "too late" not in app.get_state(thread_id="1").values.get("log", [])


def test_a_cancelled_run_cancels_its_coroutines_and_waits_for_their_cleaning_up() -> None:
    control, cleaned = RunControl(), list[str]()

    async def forever(state: Any) -> None:
        try:
            control.request_cancel("enough")
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.001)
            cleaned.append("clean")

    async def beside(state: Any) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RunCancelled, match="enough"):
        graph(forever=forever, beside=beside).compile().invoke({}, control=control)
    assert cleaned == ["clean"]


def test_a_failure_cancels_coroutines_beside_it_before_it_is_raised() -> None:
    cleaned, waiting = list[str](), threading.Event()

    async def forever(state: Any) -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append("clean")

    def fail(state: Any) -> None:
        waiting.wait(LONG)
        raise LookupError("no luck")

    with pytest.raises(LookupError, match="no luck"):
        graph(forever=forever, fail=fail).compile().invoke({})
    assert cleaned == ["clean"]
