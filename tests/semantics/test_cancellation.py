"""Part I sections 5.5 and 8.3: cancelling, draining and abandoning runs and everything that they started."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, InMemorySaver, RetryPolicy, RunControl, StateGraph, append, interrupt, task
from statewright.errors import GraphDrained, RunCancelled
from statewright.testing import FakeClock, RecordingInstrument

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class LongNodes:
    """Coroutine nodes that run until they are cancelled, and record it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.running: list[str] = []
        self.ended: list[str] = []

    def node(self, name: str) -> Any:
        async def long(state: State) -> dict[str, Any]:
            self.running.append(name)
            self.begun.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                self.ended.append(name)
                raise
            return {"log": [name]}

        return long


def graph_of(*nodes: tuple[str, Any]) -> StateGraph:
    graph = StateGraph(State)
    for name, node in nodes:
        graph.add_node(name, node).add_edge(START, name)
    return graph


def quick(state: State) -> dict[str, Any]:
    return {"log": ["quick"]}


def is_saved(saver: Any, name: str) -> bool:
    """Return whether the result of a node is saved, in a superstep that still runs."""
    head = saver.load(THREAD["thread_id"])
    return head is not None and any(result.task.node == name for result in head.pending.completed.values())


def cancel_soon(
    control: RunControl, long: LongNodes, *, running: int = 1, condition: Callable[[], bool] = lambda: True
) -> threading.Thread:
    """Cancel when this many nodes run and the condition is true."""

    def cancel() -> None:
        while len(long.running) < running or not condition():
            time.sleep(0.001)
        control.request_cancel("no longer needed")

    thread = threading.Thread(target=cancel, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("has_sibling", [False, True])
def test_5_5_a_cancelled_run_stops_at_once_and_keeps_finished_results(driver: Any, has_sibling: bool) -> None:
    long, control, saver = LongNodes(), RunControl(), InMemorySaver()
    nodes = [("long", long.node("long")), *([("quick", quick)] if has_sibling else [])]
    app = graph_of(*nodes).compile(saver)
    cancel_soon(control, long, condition=lambda: not has_sibling or is_saved(saver, "quick"))

    with pytest.raises(RunCancelled, match="no longer needed"):
        driver.invoke(app, {"x": 1}, THREAD, control=control)
    assert long.ended == ["long"]
    snapshot = app.get_state(THREAD)
    assert snapshot.next == ("long",)
    assert [task.result for task in snapshot.tasks if task.name == "quick"] == (
        [{"log": ["quick"]}] if has_sibling else []
    )


def test_5_5_cancellation_reaches_inner_graphs_at_any_depth(driver: Any) -> None:
    long, control = LongNodes(), RunControl()
    app: Any = graph_of(("long", long.node("inner")), ("other", long.node("other"))).compile()
    for _ in range(3):
        app = graph_of(("deeper", app), ("sibling", long.node("sibling"))).compile()
    cancel_soon(control, long, running=5)

    with pytest.raises(RunCancelled):
        driver.invoke(app, {"x": 1}, control=control)
    assert sorted(long.ended) == ["inner", "other"] + ["sibling"] * 3


def test_5_5_a_cancelled_run_ends_as_cancelled_for_observers(driver: Any) -> None:
    long, control, seen = LongNodes(), RunControl(), RecordingInstrument()
    saver = InMemorySaver()
    app = graph_of(("long", long.node("long"))).compile(saver, instruments=[seen])
    cancel_soon(control, long)

    with pytest.raises(RunCancelled):
        driver.invoke(app, {"x": 1}, THREAD, control=control)
    (finished,) = seen.of_kind("run_finished")
    assert finished.data.status == "cancelled"
    assert app.get_events(THREAD)[-1].data["status"] == "cancelled"


def test_5_5_a_cancelled_asyncio_task_saves_finished_results_before_it_ends() -> None:
    long, saver, seen = LongNodes(), InMemorySaver(), RecordingInstrument()
    app = graph_of(("long", long.node("long")), ("quick", quick)).compile(saver, instruments=[seen])

    async def main() -> None:
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, THREAD))
        while not (long.begun.is_set() and is_saved(saver, "quick")):
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert long.ended == ["long"]
    assert [task.name for task in app.get_state(THREAD).tasks if task.result] == ["quick"]
    assert seen.of_kind("run_finished")[0].data.status == "cancelled"
    assert asyncio.run(log_after_drain(app)) == ["quick"]


async def log_after_drain(app: Any) -> Any:
    """Return the log when the thread continues: finished results are applied."""
    control = RunControl()
    control.request_drain()
    with pytest.raises(GraphDrained):
        await app.ainvoke({"x": 2}, THREAD, control=control)
    return (await app.aget_state(THREAD)).values["log"]


@pytest.mark.parametrize("source", ["task", "control"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_5_5_repeated_cancellation_keeps_finished_results(source: str, times: int) -> None:
    paid: list[int] = []

    async def main() -> None:
        begun, cleaned, control = asyncio.Event(), asyncio.Event(), RunControl()

        async def pay(state: State) -> dict[str, Any]:
            paid.append(1)
            return {"log": ["paid"]}

        async def slow(state: State) -> dict[str, Any]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                if not cleaned.is_set():
                    for _ in range(20):
                        await asyncio.sleep(0)
                    cleaned.set()
            return {}

        graph = StateGraph(State).add_node(pay).add_node(slow).add_edge(START, "pay").add_edge(START, "slow")
        app = graph.compile(InMemorySaver())
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, thread_id="1", control=control))
        await begun.wait()
        for _ in range(times):
            if source == "task":
                running.cancel()
            else:
                control.request_cancel()
            for _ in range(3):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError if source == "task" else RunCancelled):
            await running
        assert cleaned.is_set(), "the run has ended before the cleanup of a node"
        assert app.get_state(thread_id="1").next == ("slow",)
        assert app.checkpointer.lease("1") is None

    asyncio.run(main())
    assert paid == [1]


def test_5_5_repeated_cancellation_does_not_cancel_the_task_of_the_caller() -> None:
    async def main() -> None:
        control = RunControl()

        async def node(state: State) -> None:
            control.request_cancel()
            control.request_cancel()
            await asyncio.Event().wait()

        app = graph_of(("node", node)).compile()
        with pytest.raises(RunCancelled):
            await app.ainvoke({"x": 1}, control=control)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


@pytest.mark.parametrize("source", ["task", "control"])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_7_2_cancelling_while_the_callers_of_a_call_are_saved_loses_nothing(source: str, kind: str) -> None:
    """With durability `exit`, the first commit has the results before the call that asks."""
    saving, go_on, done = threading.Event(), threading.Event(), list[str]()

    class SlowSaver(InMemorySaver):
        def commit(self, commit: Any, **options: Any) -> Any:
            if commit.checkpoint.values.get("log") == ["first"] and not saving.is_set():
                saving.set()
                assert go_on.wait(600)
            return super().commit(commit, **options)

    def first(state: State) -> dict[str, Any]:
        done.append("first")
        return {"log": ["first"]}

    child = StateGraph(State).add_node("q", lambda s: {"log": [interrupt("?")]}).add_edge(START, "q").compile()

    def plain(state: State) -> dict[str, Any]:
        return {"log": child.invoke({})["log"]}

    async def coroutine(state: State) -> dict[str, Any]:
        return {"log": (await child.ainvoke({}))["log"]}

    async def main() -> None:
        control = RunControl()
        graph = StateGraph(State).add_node(first).add_node("call", plain if kind == "plain" else coroutine)
        app = graph.add_edge(START, "first").add_edge("first", "call").compile(SlowSaver())
        options: dict[str, Any] = {"thread_id": "1", "durability": "exit", "control": control}
        running = asyncio.ensure_future(app.ainvoke({"x": 1}, **options))
        assert await asyncio.to_thread(saving.wait, 600)
        if source == "task":
            running.cancel()
        else:
            control.request_cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError if source == "task" else RunCancelled):
            await running
        assert app.get_state(thread_id="1").next == ("call",)
        assert "__interrupt__" in await app.ainvoke(None, thread_id="1")

    asyncio.run(main())
    assert done == ["first"]


def test_5_5_cancelling_a_run_ends_the_wait_for_its_next_attempt(driver: Any) -> None:
    control, clock = RunControl(), FakeClock()

    def fails(state: State) -> None:
        threading.Timer(0.02, control.request_cancel).start()
        raise ConnectionError

    graph = StateGraph(State).add_node("fails", fails, retry_policy=RetryPolicy(initial_interval=1000))
    with pytest.raises(RunCancelled):
        driver.invoke(graph.add_edge(START, "fails").compile(clock=clock), {"x": 1}, control=control)


def test_5_5_a_cancelled_run_leaves_plain_functions_and_ignores_their_late_writes(driver: Any, within: Any) -> None:
    gate, control, late = threading.Event(), RunControl(), []

    def quick_then_cancel(state: State) -> dict[str, Any]:
        threading.Timer(0.1, control.request_cancel).start()  # well after this result is saved
        return {"log": ["quick"]}

    def slow(state: State) -> dict[str, Any]:
        gate.wait(600)
        late.append(1)
        return {"log": ["late"]}

    app = graph_of(("slow", slow), ("quick", quick_then_cancel)).compile(InMemorySaver())
    with pytest.raises(RunCancelled):
        within(lambda: driver.invoke(app, {"x": 1}, THREAD, control=control))
    gate.set()
    while not late:
        time.sleep(0.001)
    assert [task.result for task in app.get_state(THREAD).tasks] == [None, {"log": ["quick"]}]


def test_5_5_a_cancelled_control_stops_a_run_before_its_first_step(driver: Any) -> None:
    control = RunControl()
    control.request_cancel()

    with pytest.raises(RunCancelled):
        driver.invoke(graph_of(("quick", quick)).compile(), {"x": 1}, control=control)


def test_5_5_tasks_of_a_cancelled_node_are_cancelled() -> None:
    long = LongNodes()
    call = task(long.node("called"))

    async def caller(state: State) -> None:
        await call(state)

    async def main() -> None:
        running = asyncio.ensure_future(graph_of(("caller", caller)).compile().ainvoke({"x": 1}))
        while not long.begun.is_set():
            await asyncio.sleep(0.001)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert long.ended == ["called"]


def test_8_3_an_abandoned_stream_stops_its_run_promptly(driver: Any, within: Any) -> None:
    long = LongNodes()
    app = graph_of(("quick", quick), ("long", long.node("long"))).compile()

    def abandon() -> Any:
        return driver.take(app, {"x": 1}, 1)

    if driver.name == "async":
        assert within(abandon) == [{"quick": {"log": ["quick"]}}]
    else:
        parts = app.stream({"x": 1}, stream_mode=["updates", "custom"])
        assert within(lambda: next(parts)) == ("updates", {"quick": {"log": ["quick"]}})
        assert long.begun.wait(600)
        within(parts.close)
    deadline = time.monotonic() + 600
    while not long.ended and time.monotonic() < deadline:
        time.sleep(0.001)
    assert long.ended == ["long"]


def test_a_thread_whose_results_are_not_applied_yet_has_nodes_to_run() -> None:
    """The last node has ended although the run was cancelled, so its result is applied by the next call."""
    control = RunControl()

    def node(state: dict[str, Any]) -> dict[str, Any]:
        control.request_cancel("no longer needed")
        return {"n": 1}

    app = StateGraph({"n": int}).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    with pytest.raises(RunCancelled):
        app.invoke({"n": 0}, THREAD, control=control)
    assert app.get_state(THREAD).next == ("node",)
    assert app.get_state(THREAD).values == {"n": 0}
    assert app.invoke(None, THREAD) == {"n": 1}
    assert app.get_state(THREAD).next == ()
