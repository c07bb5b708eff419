"""Context variables, nested loops, cancellation and signals: isolation of concurrent nodes."""

import asyncio
import contextvars
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, InMemorySaver, Send, StateGraph, append


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    x: int


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def log_name(name: str) -> Any:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [name]}

    node.__name__ = name
    return node


def concurrent(count: int, node: Any, paint: Any = lambda node: node) -> StateGraph:
    graph = StateGraph(State)
    for number in range(count):
        graph.add_node(f"n{number}", paint(node)).add_edge(START, f"n{number}")
    return graph


# -- context variables


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("limit", [None, 1])
def test_context_variables_of_the_caller_are_visible_in_nodes(
    driver: Any, paint: Any, count: int, limit: int | None
) -> None:
    app = concurrent(count, lambda s: {"log": [variable.get()]}, paint).compile()
    token = variable.set("mine")
    try:
        assert driver.invoke(app, {"x": 1}, max_concurrency=limit)["log"] == ["mine"] * count
    finally:
        variable.reset(token)


def test_context_variables_of_the_caller_are_visible_in_streams_and_batches(driver: Any, paint: Any) -> None:
    app = concurrent(2, lambda s: {"log": [variable.get()]}, paint).compile()
    token = variable.set("mine")
    try:
        assert driver.stream(app, {"x": 1}, stream_mode="values")[-1]["log"] == ["mine", "mine"]
        assert [result["log"] for result in driver.batch(app, [{"x": 1}, {"x": 2}])] == [["mine", "mine"]] * 2
    finally:
        variable.reset(token)


@pytest.mark.parametrize("limit", [None, 1])
def test_context_variables_of_a_node_are_invisible_to_its_siblings(driver: Any, paint: Any, limit: int | None) -> None:
    def node(state: Any) -> Any:
        seen = variable.get()
        variable.set("changed")
        return {"log": [seen]}

    app = concurrent(6, node, paint).compile()

    assert driver.invoke(app, {"x": 1}, max_concurrency=limit)["log"] == ["unset"] * 6


def test_context_variables_of_concurrent_nodes_are_invisible_to_the_caller(driver: Any, paint: Any) -> None:
    app = concurrent(3, lambda s: variable.set("changed") and None, paint).compile()

    driver.invoke(app, {"x": 1})

    assert variable.get() == "unset"


def test_context_variables_reach_the_nodes_of_subgraphs(driver: Any, paint: Any) -> None:
    leaf = concurrent(2, lambda s: {"log": [variable.get()]}, paint).compile()
    app = (
        StateGraph(State)
        .add_node("leaf", leaf)
        .add_node("n", paint(log_name("n")))
        .add_edge(START, "leaf")
        .add_edge(START, "n")
    )

    token = variable.set("mine")
    try:
        assert driver.invoke(app.compile(), {"x": 1})["log"] == ["mine", "mine", "n"]
    finally:
        variable.reset(token)


# -- nested event loops


def test_invoke_works_inside_a_running_loop(paint: Any, within: Any) -> None:
    app = concurrent(3, log_name("n"), paint).compile()

    async def main() -> Any:
        return app.invoke({"x": 1})["log"]

    assert within(lambda: asyncio.run(main())) == ["n"] * 3


def test_coroutine_nodes_may_nest_calls_of_invoke(driver: Any, within: Any) -> None:
    inner: Any = None
    for depth in range(3):

        async def node(state: Any, inner: Any = inner, depth: int = depth) -> Any:
            await asyncio.sleep(0)
            return {"log": [depth, *(inner.invoke({"x": 1})["log"] if inner else [])]}

        inner = concurrent(1, node).compile()

    assert within(lambda: driver.invoke(inner, {"x": 1}))["log"] == [2, 1, 0]


def test_invoke_on_a_worker_thread_of_a_nested_run_does_not_deadlock(driver: Any, within: Any) -> None:
    async def leaf(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": ["leaf"]}

    bottom = concurrent(1, leaf).compile()
    middle = concurrent(2, lambda s: {"log": bottom.invoke({"x": 1})["log"]}).compile()

    async def call(state: Any) -> Any:
        return {"log": middle.invoke({"x": 1})["log"]}

    assert within(lambda: driver.invoke(concurrent(1, call).compile(), {"x": 1}))["log"] == ["leaf", "leaf"]


def test_many_threads_may_run_coroutine_nodes_concurrently(within: Any) -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": [state["x"]]}

    app = concurrent(3, node).compile()

    def run_all() -> list[Any]:
        results: list[Any] = [None] * 10
        threads = [
            threading.Thread(target=lambda n=n: results.__setitem__(n, app.invoke({"x": n})["log"])) for n in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    assert within(run_all) == [[n] * 3 for n in range(10)]


def test_many_runs_may_share_one_event_loop(within: Any) -> None:
    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"x": state["x"] + 1}

    app = StateGraph(State).add_sequence([("a", node), ("b", node), ("c", node)]).add_edge(START, "a").compile()

    async def main() -> list[int]:
        results = await asyncio.gather(*(app.ainvoke({"x": n}) for n in range(50)))
        return [result["x"] for result in results]

    assert within(lambda: asyncio.run(main())) == [n + 3 for n in range(50)]


def test_coroutine_nodes_run_on_an_event_loop_in_debug_mode(within: Any) -> None:
    async def node(state: Any) -> Any:
        return {"log": ["n"]}

    app = concurrent(3, node).compile()

    assert within(lambda: asyncio.run(app.ainvoke({"x": 1}), debug=True))["log"] == ["n"] * 3


# -- failures and cancellation


def test_a_failure_does_not_wait_for_plain_siblings(driver: Any, within: Any) -> None:
    release = threading.Event()
    started = threading.Barrier(3)

    def slow(state: Any) -> None:
        started.wait(600)
        release.wait(600)

    def bad(state: Any) -> None:
        started.wait(600)
        raise ValueError("now")

    graph = concurrent(2, slow).add_node("bad", bad).add_edge(START, "bad")
    with pytest.raises(ValueError, match="now"):
        within(lambda: driver.invoke(graph.compile(), {"x": 1}))
    release.set()


def test_a_failure_starts_no_further_tasks(driver: Any, paint: Any, within: Any) -> None:
    started: list[int] = []

    def work(n: int) -> None:
        started.append(n)
        if n == 0:
            raise ValueError("first")

    graph = StateGraph(State).add_node("s", lambda s: [Send("w", n) for n in range(100)], destinations=["w"])
    app = graph.add_node("w", paint(work)).add_edge(START, "s").compile()

    with pytest.raises(ValueError, match="first"):
        within(lambda: driver.invoke(app, {"x": 1}, max_concurrency=1))
    time.sleep(0.002)
    assert len(started) < 10


def test_a_cancelled_run_waits_for_the_cleanup_of_its_nodes_and_subgraphs(within: Any) -> None:
    cleaned: list[str] = []
    started = asyncio.Event()

    async def forever(state: Any) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("inner")

    child = concurrent(2, forever).compile()
    app = StateGraph(State).add_node("child", child).add_node("other", forever).add_edge(START, "child")
    app = app.add_edge(START, "other").compile()

    async def main() -> None:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}))
        await started.wait()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert cleaned == ["inner"] * 3

    within(lambda: asyncio.run(main()))


def test_a_cancelled_run_can_continue_later(within: Any) -> None:
    completes = [False]

    begun = asyncio.Event()

    async def wait(state: Any) -> Any:
        begun.set()
        if not completes[0]:
            await asyncio.Event().wait()
        return {"log": ["waited"]}

    app = StateGraph(State).add_sequence([log_name("a"), wait]).add_edge(START, "a").compile(InMemorySaver())

    async def main() -> Any:
        running = asyncio.create_task(app.ainvoke({"x": 1}, thread_id="1"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        completes[0] = True
        return await app.ainvoke(None, thread_id="1")

    assert within(lambda: asyncio.run(main()))["log"] == ["a", "waited"]


def test_a_timeout_around_a_run_is_not_a_failure_of_a_node(within: Any) -> None:
    async def forever(state: Any) -> None:
        await asyncio.Event().wait()

    app = concurrent(1, forever).compile()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.002):
                await app.ainvoke({"x": 1})

    within(lambda: asyncio.run(main()))


def test_a_late_failure_of_an_abandoned_node_is_ignored(driver: Any, within: Any) -> None:
    release, done = threading.Event(), threading.Event()

    def late(state: Any) -> None:
        release.wait(600)
        done.set()
        raise KeyError("late")

    def bad(state: Any) -> None:
        raise ValueError("now")

    app = (
        StateGraph(State)
        .add_node(late)
        .add_node(bad)
        .add_edge(START, "late")
        .add_edge(START, "bad")
        .compile(InMemorySaver(), sibling_grace=0)
    )
    with pytest.raises(ValueError, match="now"):
        within(lambda: driver.invoke(app, {"x": 1}, thread_id="1"))
    release.set()
    assert done.wait(600)
    time.sleep(0.002)

    assert [task.error for task in app.get_state(thread_id="1").tasks] == [None, "ValueError: now"]


def test_results_of_many_plain_functions_are_applied_in_order(driver: Any, within: Any) -> None:
    graph = StateGraph(State).add_node("s", lambda s: [Send("w", n) for n in range(500)], destinations=["w"])
    app = graph.add_node("w", lambda n: {"log": [n]}).add_edge(START, "s").compile()

    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == list(range(500))


def test_results_of_many_coroutines_are_applied_in_order(driver: Any, within: Any) -> None:
    async def work(n: int) -> Any:
        await asyncio.sleep(0)
        return {"log": [n]}

    graph = StateGraph(State).add_node("s", lambda s: [Send("w", n) for n in range(2500)], destinations=["w"])
    app = graph.add_node("w", work).add_edge(START, "s").compile()

    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == list(range(2500))
