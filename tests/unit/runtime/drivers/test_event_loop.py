"""The driver on an event loop: lanes of nodes, slow readers and cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from statewright import START, InMemorySaver, RunControl, Runtime, StateGraph, append
from statewright.errors import RunCancelled
from statewright.runtime.drivers.event_loop import BUFFERED_PARTS
from statewright.runtime.tasks.scope import current_scope

TIMEOUT = 600.0
SCHEMA = {"log": append, "x": int}
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")


def graph(**functions: Callable[..., Any]) -> StateGraph:
    """Return a graph that starts with all functions."""
    builder = StateGraph(SCHEMA)
    for name, function in functions.items():
        builder.add_node(name, function).add_edge(START, name)
    return builder


def chain(*functions: Callable[..., Any]) -> StateGraph:
    builder = StateGraph(SCHEMA)
    names = [f"n{number}" for number in range(len(functions))]
    for name, function in zip(names, functions, strict=True):
        builder.add_node(name, function)
    return builder.add_sequence([START, *names])


def run_async(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return the result of a coroutine function, with a time limit."""

    async def limited() -> Any:
        return await asyncio.wait_for(main(), TIMEOUT)

    return asyncio.run(limited())


class WaitingNode:
    """A coroutine node that waits until it is cancelled, and records its cleanup."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.cleaned = False

    async def __call__(self, state: Any) -> None:
        try:
            self.started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned = True

    async def wait_until_started(self) -> None:
        while not self.started.is_set():
            await asyncio.sleep(0)


# -- where nodes run


def test_a_single_coroutine_is_awaited_in_the_task_of_the_caller() -> None:
    seen: list[Any] = []

    async def node(state: Any) -> None:
        seen.append(asyncio.current_task())

    async def main() -> Any:
        await graph(node=node).compile().ainvoke({})
        return asyncio.current_task()

    assert run_async(main) is seen[0]


def test_concurrent_coroutines_run_on_the_loop_of_the_caller() -> None:
    seen: list[Any] = []

    async def node(state: Any) -> None:
        seen.append(asyncio.get_running_loop())

    async def main() -> Any:
        await graph(a=node, b=node).compile().ainvoke({})
        return asyncio.get_running_loop()

    loop = run_async(main)
    assert seen == [loop, loop]


@pytest.mark.parametrize("count", [1, 3])
def test_plain_functions_do_not_block_the_loop(count: int) -> None:
    proceed, threads = threading.Event(), set[threading.Thread]()

    def node(state: Any) -> None:
        threads.add(threading.current_thread())
        proceed.wait(TIMEOUT)

    async def main() -> None:
        running = asyncio.ensure_future(graph(**{f"n{n}": node for n in range(count)}).compile().ainvoke({}))
        while not threads:
            await asyncio.sleep(0)
        proceed.set()
        await running

    run_async(main)
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("concurrent", [False, True])
def test_inline_nodes_run_in_the_thread_of_the_loop(concurrent: bool) -> None:
    seen: list[threading.Thread] = []
    builder = StateGraph(SCHEMA).add_node("a", lambda state: seen.append(threading.current_thread()), inline=True)
    builder.add_edge(START, "a")
    if concurrent:
        builder.add_node("b", lambda state: None).add_edge(START, "b")
    run_async(lambda: builder.compile().ainvoke({}))
    assert seen == [threading.current_thread()]


def test_a_subgraph_runs_on_the_loop_of_the_caller() -> None:
    seen: list[Any] = []

    async def node(state: Any) -> None:
        seen.append(asyncio.get_running_loop())

    outer = StateGraph(SCHEMA).add_node("inner", graph(node=node).compile()).add_edge(START, "inner")

    async def main() -> Any:
        await outer.compile().ainvoke({})
        return asyncio.get_running_loop()

    assert [run_async(main)] == seen


@pytest.mark.parametrize("kind", ["plain", "coroutine", "both"])
def test_nodes_see_the_context_variables_of_the_caller(kind: str) -> None:
    seen: list[str] = []

    def plain(state: Any) -> None:
        seen.append(CURRENT.get())

    async def coroutine(state: Any) -> None:
        seen.append(CURRENT.get())

    functions = {"plain": plain, "coroutine": coroutine}
    chosen = functions if kind == "both" else {kind: functions[kind]}

    async def main() -> None:
        CURRENT.set("the caller")
        await graph(**chosen).compile().ainvoke({})

    run_async(main)
    assert seen == ["the caller"] * len(chosen)


def test_the_scope_is_left_after_a_failed_run() -> None:
    async def main() -> Any:
        with pytest.raises(ZeroDivisionError):
            await chain(lambda state: None, lambda state: 1 / 0).compile().ainvoke({})
        return current_scope()

    assert run_async(main) is None


def test_concurrent_runs_on_one_loop_are_independent() -> None:
    async def node(state: Any) -> dict[str, Any]:
        for _ in range(state["x"]):
            await asyncio.sleep(0)
        return {"log": [state["x"]]}

    app = chain(node, node).compile()

    async def main() -> list[Any]:
        return await asyncio.gather(*(app.ainvoke({"x": n}) for n in range(20)))

    assert [result["log"] for result in run_async(main)] == [[n, n] for n in range(20)]


# -- the reader


def test_a_run_continues_while_its_reader_is_busy() -> None:
    ran: list[str] = []

    async def first(state: Any) -> None:
        ran.append("first")

    async def second(state: Any) -> None:
        ran.append("second")

    async def main() -> list[str]:
        parts = chain(first, second).compile().astream({})
        await anext(parts)
        for _ in range(20):
            await asyncio.sleep(0)
        seen = list(ran)
        await parts.aclose()
        return seen

    assert run_async(main) == ["first", "second"]


def test_a_run_waits_for_a_slow_reader() -> None:
    steps = 0

    async def node(state: Any) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        return {"x": steps}

    builder = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").add_edge("a", "a")

    async def main() -> int:
        parts = builder.compile().astream({}, recursion_limit=10 * BUFFERED_PARTS)
        await anext(parts)
        for _ in range(5 * BUFFERED_PARTS):
            await asyncio.sleep(0)
        seen = steps
        await parts.aclose()
        return seen

    assert BUFFERED_PARTS <= run_async(main) <= 2 * BUFFERED_PARTS + 1


def test_closing_a_stream_cancels_the_run_and_waits_for_its_cleanup() -> None:
    waiting_node = WaitingNode()

    async def main() -> bool:
        parts = chain(lambda state: {"x": 1}, waiting_node).compile().astream({})
        await anext(parts)
        await waiting_node.wait_until_started()
        await parts.aclose()
        return waiting_node.cleaned

    assert run_async(main)


def test_custom_parts_arrive_while_the_node_runs() -> None:
    received = asyncio.Event()

    async def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("hello")
        await received.wait()
        return {"x": 1}

    async def main() -> list[Any]:
        parts: list[Any] = []
        async for part in graph(a=node).compile().astream({}, stream_mode=["custom", "updates"]):
            parts.append(part)
            received.set()
        return parts

    assert run_async(main) == [("custom", "hello"), ("updates", {"a": {"x": 1}})]


def test_an_error_of_a_run_is_raised_after_its_parts() -> None:
    async def main() -> Any:
        parts = chain(lambda state: {"x": 1}, lambda state: 1 / 0).compile().astream({})
        first = await anext(parts)
        with pytest.raises(ZeroDivisionError):
            await anext(parts)
        return first

    assert run_async(main) == {"n0": {"x": 1}}


# -- cancellation


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_cancelled_run_saves_finished_results(concurrent: bool) -> None:
    waiting_node, finished = WaitingNode(), threading.Event()

    async def quick(state: Any) -> dict[str, Any]:
        finished.set()
        return {"log": ["quick"]}

    if concurrent:
        builder = graph(quick=quick, forever=waiting_node)
    else:
        builder = graph(quick=quick).add_node("forever", waiting_node).add_edge("quick", "forever")
    app = builder.compile(InMemorySaver())

    async def main() -> None:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, thread_id="1"))
        await waiting_node.wait_until_started()
        while not finished.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_async(main)
    state = app.get_state(thread_id="1")
    assert waiting_node.cleaned
    assert state.next == ("forever",)
    if concurrent:
        assert {task.name: task.result for task in state.tasks}["quick"] == {"log": ["quick"]}
    else:
        assert state.values["log"] == ["quick"]


def test_a_cancelled_run_releases_its_thread() -> None:
    waiting_node = WaitingNode()
    app = graph(forever=waiting_node).compile(InMemorySaver())

    async def main() -> Any:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, thread_id="1"))
        await waiting_node.wait_until_started()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await app.aupdate_state({"configurable": {"thread_id": "1"}}, {"x": 2}, "forever")

    assert run_async(main)["configurable"]["thread_id"] == "1"


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_control_cancels_a_run_without_cancelling_the_task_of_the_caller(concurrent: bool) -> None:
    waiting_node, control = WaitingNode(), RunControl()

    async def other(state: Any) -> None: ...

    functions = {"forever": waiting_node, **({"other": other} if concurrent else {})}

    def cancel() -> None:
        waiting_node.started.wait(TIMEOUT)
        control.request_cancel("enough")

    async def main() -> int:
        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(RunCancelled, match="enough"):
            await graph(**functions).compile().ainvoke({}, control=control)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert run_async(main) == 0
    assert waiting_node.cleaned


def test_a_timeout_around_a_run_raises_timeout_error() -> None:
    waiting_node = WaitingNode()

    async def main() -> None:
        await asyncio.wait_for(graph(forever=waiting_node).compile().ainvoke({}), 0.005)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert waiting_node.cleaned


def test_a_failure_cancels_concurrent_coroutines() -> None:
    waiting_node = WaitingNode()

    async def fail(state: Any) -> None:
        await waiting_node.wait_until_started()
        raise LookupError("no luck")

    async def main() -> None:
        with pytest.raises(LookupError, match="no luck"):
            await graph(forever=waiting_node, fail=fail).compile().ainvoke({})
        assert waiting_node.cleaned

    run_async(main)
