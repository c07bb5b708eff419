"""The driver on an event loop: where nodes run, how a slow reader is waited for, and what cancelling does."""

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

LONG = 600.0
SCHEMA = {"log": append, "x": int}
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def graph(**functions: Callable[..., Any]) -> StateGraph:
    """A graph that starts with each of the functions."""
    built = StateGraph(SCHEMA)
    for name, function in functions.items():
        built.add_node(name, function).add_edge(START, name)
    return built


def chain(*functions: Callable[..., Any]) -> StateGraph:
    built = StateGraph(SCHEMA)
    names = [f"n{number}" for number in range(len(functions))]
    for name, function in zip(names, functions, strict=True):
        built.add_node(name, function)
    return built.add_sequence([START, *names])


def on_a_loop(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What a coroutine function gives; a test that hangs fails."""

    async def limited() -> Any:
        return await asyncio.wait_for(main(), LONG)

    return asyncio.run(limited())


class Forever:
    """A coroutine node that waits until it is cancelled, and says what became of it."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.cleaned = False

    async def __call__(self, state: Any) -> None:
        try:
            self.waits.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned = True

    async def begun(self) -> None:
        while not self.waits.is_set():
            await asyncio.sleep(0)


# -- where nodes run


def test_a_lone_coroutine_is_awaited_in_the_task_of_the_caller() -> None:
    found: list[Any] = []

    async def node(state: Any) -> None:
        found.append(asyncio.current_task())

    async def main() -> Any:
        await graph(node=node).compile().ainvoke({})
        return asyncio.current_task()

    assert on_a_loop(main) is found[0]


def test_coroutines_beside_each_other_run_on_the_loop_of_the_caller() -> None:
    found: list[Any] = []

    async def node(state: Any) -> None:
        found.append(asyncio.get_running_loop())

    async def main() -> Any:
        await graph(a=node, b=node).compile().ainvoke({})
        return asyncio.get_running_loop()

    loop = on_a_loop(main)
    assert found == [loop, loop]


@pytest.mark.parametrize("count", [1, 3])
def test_plain_functions_block_no_loop(count: int) -> None:
    go_on, threads = threading.Event(), set[threading.Thread]()

    def node(state: Any) -> None:
        threads.add(threading.current_thread())
        go_on.wait(LONG)

    async def main() -> None:
        running = asyncio.ensure_future(graph(**{f"n{n}": node for n in range(count)}).compile().ainvoke({}))
        while not threads:
            await asyncio.sleep(0)  # the loop turns meanwhile
        go_on.set()
        await running

    on_a_loop(main)
    assert threading.current_thread() not in threads


@pytest.mark.parametrize("beside", [False, True])
def test_inline_nodes_run_on_the_thread_of_the_loop(beside: bool) -> None:
    found: list[threading.Thread] = []
    built = StateGraph(SCHEMA).add_node("a", lambda state: found.append(threading.current_thread()), inline=True)
    built.add_edge(START, "a")
    if beside:
        built.add_node("b", lambda state: None).add_edge(START, "b")
    on_a_loop(lambda: built.compile().ainvoke({}))
    assert found == [threading.current_thread()]


def test_a_graph_is_a_node_without_a_thread_of_its_own() -> None:
    found: list[Any] = []

    async def node(state: Any) -> None:
        found.append(asyncio.get_running_loop())

    outer = StateGraph(SCHEMA).add_node("inner", graph(node=node).compile()).add_edge(START, "inner")

    async def main() -> Any:
        await outer.compile().ainvoke({})
        return asyncio.get_running_loop()

    assert [on_a_loop(main)] == found


@pytest.mark.parametrize("colour", ["plain", "coroutine", "both"])
def test_nodes_see_the_context_of_the_caller(colour: str) -> None:
    seen: list[str] = []

    def plain(state: Any) -> None:
        seen.append(WHO.get())

    async def coroutine(state: Any) -> None:
        seen.append(WHO.get())

    functions = {"plain": plain, "coroutine": coroutine}
    chosen = functions if colour == "both" else {colour: functions[colour]}

    async def main() -> None:
        WHO.set("the caller")
        await graph(**chosen).compile().ainvoke({})

    on_a_loop(main)
    assert seen == ["the caller"] * len(chosen)


def test_no_scope_is_left_behind() -> None:
    async def main() -> Any:
        with pytest.raises(ZeroDivisionError):
            await chain(lambda state: None, lambda state: 1 / 0).compile().ainvoke({})
        return current_scope()

    assert on_a_loop(main) is None


def test_runs_on_one_loop_do_not_disturb_each_other() -> None:
    async def node(state: Any) -> dict[str, Any]:
        for _ in range(state["x"]):
            await asyncio.sleep(0)
        return {"log": [state["x"]]}

    app = chain(node, node).compile()

    async def main() -> list[Any]:
        return await asyncio.gather(*(app.ainvoke({"x": n}) for n in range(20)))

    assert [one["log"] for one in on_a_loop(main)] == [[n, n] for n in range(20)]


# -- the reader


def test_a_run_goes_on_while_its_reader_is_busy() -> None:
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

    assert on_a_loop(main) == ["first", "second"]


def test_a_run_waits_for_a_reader_that_is_far_behind() -> None:
    steps = 0

    async def node(state: Any) -> dict[str, Any]:
        nonlocal steps
        steps += 1
        return {"x": steps}

    built = StateGraph(SCHEMA).add_node("a", node).add_edge(START, "a").add_edge("a", "a")

    async def main() -> int:
        parts = built.compile().astream({}, recursion_limit=10 * BUFFERED_PARTS)
        await anext(parts)
        for _ in range(5 * BUFFERED_PARTS):
            await asyncio.sleep(0)
        seen = steps
        await parts.aclose()
        return seen

    assert BUFFERED_PARTS <= on_a_loop(main) <= 2 * BUFFERED_PARTS + 1


def test_closing_the_reader_cancels_the_run_and_waits_until_it_has_cleaned_up() -> None:
    forever = Forever()

    async def main() -> bool:
        parts = chain(lambda state: {"x": 1}, forever).compile().astream({})
        await anext(parts)
        await forever.begun()
        await parts.aclose()
        return forever.cleaned

    assert on_a_loop(main)


def test_a_reader_hears_what_a_node_says_while_it_runs() -> None:
    heard = asyncio.Event()

    async def node(state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.stream_writer("hello")
        await heard.wait()
        return {"x": 1}

    async def main() -> list[Any]:
        parts: list[Any] = []
        async for part in graph(a=node).compile().astream({}, stream_mode=["custom", "updates"]):
            parts.append(part)
            heard.set()
        return parts

    assert on_a_loop(main) == [("custom", "hello"), ("updates", {"a": {"x": 1}})]


def test_what_a_run_raises_comes_after_its_parts() -> None:
    async def main() -> Any:
        parts = chain(lambda state: {"x": 1}, lambda state: 1 / 0).compile().astream({})
        first = await anext(parts)
        with pytest.raises(ZeroDivisionError):
            await anext(parts)
        return first

    assert on_a_loop(main) == {"n0": {"x": 1}}


# -- being cancelled


@pytest.mark.parametrize("beside", [False, True])
def test_a_cancelled_run_keeps_what_had_landed(beside: bool) -> None:
    forever, landed = Forever(), threading.Event()

    async def quick(state: Any) -> dict[str, Any]:
        landed.set()
        return {"log": ["quick"]}

    if beside:
        built = graph(quick=quick, forever=forever)
    else:
        built = graph(quick=quick).add_node("forever", forever).add_edge("quick", "forever")
    app = built.compile(InMemorySaver())

    async def main() -> None:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, thread_id="1"))
        await forever.begun()
        while not landed.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    on_a_loop(main)
    state = app.get_state(thread_id="1")
    assert forever.cleaned
    assert state.next == ("forever",)
    if beside:
        assert {task.name: task.result for task in state.tasks}["quick"] == {"log": ["quick"]}
    else:
        assert state.values["log"] == ["quick"]


def test_a_cancelled_run_lets_go_of_its_thread() -> None:
    forever = Forever()
    app = graph(forever=forever).compile(InMemorySaver())

    async def main() -> Any:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, thread_id="1"))
        await forever.begun()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await app.aupdate_state({"configurable": {"thread_id": "1"}}, {"x": 2}, "forever")

    assert on_a_loop(main)["configurable"]["thread_id"] == "1"


@pytest.mark.parametrize("beside", [False, True])
def test_a_control_cancels_a_run_from_another_thread_without_cancelling_the_caller(beside: bool) -> None:
    forever, control = Forever(), RunControl()

    async def other(state: Any) -> None: ...

    functions = {"forever": forever, **({"other": other} if beside else {})}

    def cancel() -> None:
        forever.waits.wait(LONG)
        control.request_cancel("enough")

    async def main() -> int:
        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(RunCancelled, match="enough"):
            await graph(**functions).compile().ainvoke({}, control=control)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert on_a_loop(main) == 0
    assert forever.cleaned


def test_a_timeout_around_a_run_is_a_timeout() -> None:
    forever = Forever()

    async def main() -> None:
        await asyncio.wait_for(graph(forever=forever).compile().ainvoke({}), 0.005)

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert forever.cleaned


def test_a_failure_cancels_what_runs_beside_it() -> None:
    forever = Forever()

    async def fail(state: Any) -> None:
        await forever.begun()
        raise LookupError("no luck")

    async def main() -> None:
        with pytest.raises(LookupError, match="no luck"):
            await graph(forever=forever, fail=fail).compile().ainvoke({})
        assert forever.cleaned

    on_a_loop(main)
