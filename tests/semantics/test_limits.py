"""Part I section 5.6: limits on concurrent tasks, per run, node and tag, without deadlocks."""

import asyncio
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, Send, StateGraph, append

LIMITS = [1, 2, 3]


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class Gauge:
    """Nodes that measure how many of them run at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self.peak = 0

    def enter(self) -> None:
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1

    def plain(self, state: Any) -> dict[str, Any]:
        self.enter()
        time.sleep(0.002)
        self.leave()
        return {"log": [1]}

    async def coroutine(self, state: Any) -> dict[str, Any]:
        self.enter()
        await asyncio.sleep(0.002)
        self.leave()
        return {"log": [1]}

    def node(self, kind: str) -> Any:
        return getattr(self, kind)


def send_to(count: int, *targets: str) -> Any:
    return lambda state: Command(goto=[Send(targets[n % len(targets)], {"x": n}) for n in range(count)])


@pytest.fixture(params=["plain", "coroutine"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("limit", LIMITS)
def test_5_6_a_node_may_limit_its_own_tasks(driver: Any, kind: str, limit: int) -> None:
    gauge = Gauge()
    graph = StateGraph(State).add_node("spread", send_to(12, "work"), destinations=["work"])
    graph.add_node("work", gauge.node(kind), max_concurrency=limit).add_edge(START, "spread")

    assert len(driver.invoke(graph.compile(), {"x": 1})["log"]) == 12
    assert gauge.peak <= limit


def test_5_6_the_limit_of_a_node_applies_across_runs(kind: str) -> None:
    gauge = Gauge()
    app = StateGraph(State).add_node("work", gauge.node(kind), max_concurrency=2).add_edge(START, "work").compile()

    async def main() -> None:
        await asyncio.gather(*(app.ainvoke({"x": 1}) for _ in range(10)))

    asyncio.run(main())
    app.batch([{"x": 1}] * 10)
    assert gauge.peak <= 2


@pytest.mark.parametrize("limit", LIMITS)
def test_5_6_nodes_with_a_tag_share_its_limit(driver: Any, kind: str, limit: int) -> None:
    gauge = Gauge()
    graph = StateGraph(State).add_node("spread", send_to(12, "a", "b"), destinations=["a", "b"])
    for name in "ab":
        graph.add_node(name, gauge.node(kind), tags=["gpu"])
    graph.add_edge(START, "spread").set_tag_limits("gpu", max_concurrency=limit)

    assert len(driver.invoke(graph.compile(), {"x": 1})["log"]) == 12
    assert gauge.peak <= limit


@pytest.mark.parametrize("limit", LIMITS)
def test_5_6_the_limit_of_a_run_includes_its_subgraphs(driver: Any, kind: str, within: Any, limit: int) -> None:
    gauge = Gauge()
    child = StateGraph(State).add_node("spread", send_to(4, "work"), destinations=["work"])
    child.add_node("work", gauge.node(kind)).add_edge(START, "spread")
    app = child.compile()
    for _ in range(2):
        outer = StateGraph(State).add_node("spread", send_to(2, "child"), destinations=["child"])
        app = outer.add_node("child", app).add_edge(START, "spread").compile()

    result = within(lambda: driver.invoke(app, {"x": 1}, max_concurrency=limit))
    assert len(result["log"]) == 16
    assert gauge.peak <= limit


@pytest.mark.parametrize("limit", LIMITS)
def test_5_6_a_task_that_waits_for_its_children_releases_its_slot(driver: Any, within: Any, limit: int) -> None:
    graph = StateGraph(State)

    def recurse(state: Any) -> dict[str, Any]:
        if state["x"] == 0:
            return {"log": ["leaf"]}
        return {"log": graph_app.invoke({"x": state["x"] - 1})["log"]}

    graph_app: Any = graph.add_node("recurse", recurse, max_concurrency=limit, tags=["t"]).add_edge(START, "recurse")
    graph_app = graph.set_tag_limits("t", max_concurrency=limit).compile()

    assert within(lambda: driver.invoke(graph_app, {"x": 6}, max_concurrency=limit))["log"] == ["leaf"]


def test_5_6_concurrently_awaited_children_do_not_deadlock(driver: Any, within: Any) -> None:
    leaf = StateGraph(State).add_node("leaf", Gauge().coroutine).add_edge(START, "leaf").compile()

    async def parent(state: Any) -> dict[str, Any]:
        results = await asyncio.gather(*(leaf.ainvoke({"x": n}) for n in range(5)))
        return {"log": [len(results)]}

    graph = StateGraph(State).add_node("parent", parent, max_concurrency=1).add_edge(START, "parent")
    assert within(lambda: driver.invoke(graph.compile(), {"x": 1}, max_concurrency=1))["log"] == [5]


def test_5_6_a_failed_task_releases_its_slot(driver: Any, within: Any) -> None:
    failing = [True]

    def node(state: Any) -> dict[str, Any]:
        if failing[0]:
            raise KeyError("x")
        return {"log": ["ok"]}

    app = StateGraph(State).add_node("node", node, max_concurrency=1).add_edge(START, "node").compile()
    for _ in range(3):
        with pytest.raises(KeyError):
            driver.invoke(app, {"x": 1})
    failing[0] = False
    assert within(lambda: driver.invoke(app, {"x": 1}))["log"] == ["ok"]


def test_5_6_a_task_cancelled_while_it_waits_takes_no_slot() -> None:
    async def main() -> list[Any]:
        gate = asyncio.Event()

        async def node(state: Any) -> dict[str, Any]:
            await gate.wait()
            return {"log": ["ok"]}

        app = StateGraph(State).add_node("node", node, max_concurrency=1).add_edge(START, "node").compile()
        first, second, third = (asyncio.ensure_future(app.ainvoke({"x": n})) for n in range(3))
        await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.wait([second])
        gate.set()
        results = [await first, await third]
        return [*results, await app.ainvoke({"x": 9})]

    assert [result["log"] for result in asyncio.run(asyncio.wait_for(main(), 600))] == [["ok"]] * 3


# -- maps


def test_add_map_runs_once_for_each_item_and_keeps_the_order(driver: Any, paint: Any) -> None:
    class Mapped(TypedDict, total=False):
        items: list[int]
        doubled: list[int]
        log: Annotated[list[Any], append]

    def double(item: int) -> int:
        return item * 2

    graph = StateGraph(Mapped).add_map("double", paint(double), over="items", into="doubled", max_concurrency=2)
    graph.add_node("after", lambda s: {"log": [sum(s["doubled"])]})
    app = graph.add_edge(START, "double").add_edge("double", "after").compile()

    assert driver.invoke(app, {"items": [3, 1, 2]})["doubled"] == [6, 2, 4]
    assert driver.invoke(app, {"items": [3, 1, 2]})["log"] == [12]
    assert driver.invoke(app, {"items": []}) == {"items": [], "doubled": [], "log": [0]}


def test_add_map_takes_subgraphs_and_functions_with_parameters(driver: Any) -> None:
    class Mapped(TypedDict, total=False):
        items: list[Any]
        results: list[Any]

    child = StateGraph(State).add_node("inner", lambda s: {"log": [s["x"]]}).add_edge(START, "inner").compile()
    graph = StateGraph(Mapped).add_map("each", child, over="items", into="results").add_edge(START, "each")
    result = driver.invoke(graph.compile(), {"items": [{"x": 1}, {"x": 2}]})
    assert [output["log"] for output in result["results"]] == [[1], [2]]

    def ask(item: int, runtime: Any) -> Any:
        return item, runtime.execution_info.node

    graph = StateGraph(Mapped).add_map(ask, over="items", into="results").add_edge(START, "ask")
    assert driver.invoke(graph.compile(), {"items": [5]})["results"] == [(5, "ask.item")]


def test_add_map_refuses_a_field_that_is_not_a_list(driver: Any) -> None:
    from statewright.errors import InvalidUpdateError

    class Mapped(TypedDict, total=False):
        items: Any
        results: list[Any]

    app = StateGraph(Mapped).add_map("each", lambda item: item, over="items", into="results").add_edge(START, "each")
    with pytest.raises(InvalidUpdateError, match="'each' maps over the field 'items'"):
        driver.invoke(app.compile(), {"items": "text"})


# -- reads and writes


def test_2_1_a_node_reads_only_its_declared_fields(driver: Any) -> None:
    graph = StateGraph(State).add_node("node", lambda s: {"log": [sorted(s)]}, reads=["x"]).add_edge(START, "node")

    assert driver.invoke(graph.compile(), {"x": 1, "log": []})["log"] == [["x"]]


def test_2_1_a_node_writes_only_its_declared_fields(driver: Any) -> None:
    from statewright.errors import InvalidUpdateError

    results = iter([{"log": ["ok"]}, {"x": 5}, Command(update={"x": 5})])
    graph = StateGraph(State).add_node("node", lambda s: next(results), writes=["log"]).add_edge(START, "node")
    app = graph.compile()

    assert driver.invoke(app, {"x": 1})["log"] == ["ok"]
    for _ in range(2):
        with pytest.raises(InvalidUpdateError, match="wrote 'x'"):
            driver.invoke(app, {"x": 1})


def test_5_6_a_coroutine_may_call_plain_invoke_without_waiting_for_its_own_loop(driver: Any, within: Any) -> None:
    """Its slot was given to a coroutine of the event loop that it blocks."""
    plain = StateGraph(State).add_node("x", lambda state: {"log": ["x"]}).add_edge(START, "x").compile()
    begun: list[int] = []

    async def run_in_child(state: State) -> State:
        begun.append(1)
        await asyncio.sleep(0.001)
        return {"log": ["w"]}

    wide_graph = StateGraph(State)
    for number in range(3):
        wide_graph.add_node(f"w{number}", run_in_child).add_edge(START, f"w{number}")
    child = wide_graph.compile()

    async def awaits(state: State) -> State:
        return {"log": (await child.ainvoke({}))["log"]}

    async def blocks(state: State) -> State:
        while not begun:
            await asyncio.sleep(0)
        return {"log": plain.invoke({})["log"]}

    graph = StateGraph(State).add_node(awaits).add_node(blocks).add_edge(START, "awaits").add_edge(START, "blocks")
    app = graph.compile()
    assert within(lambda: driver.invoke(app, {}, max_concurrency=2))["log"] == ["w", "w", "w", "x"]


def test_5_6_an_inline_node_waits_for_its_tag_limit_without_blocking_the_loop(within: Any) -> None:
    async def main() -> list[Any]:
        has_begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(state: State) -> State:
            has_begun.set()
            await go_on.wait()
            return {"log": ["slow"]}

        graph = StateGraph(State).add_node(slow, tags=["gpu"])
        graph.add_node("quick", lambda state: {"log": ["quick"]}, inline=True, tags=["gpu"])
        graph.set_tag_limits("gpu", max_concurrency=1)
        app = graph.add_edge(START, "slow").add_edge(START, "quick").compile()
        first = asyncio.ensure_future(app.ainvoke({}))
        await has_begun.wait()
        second = asyncio.ensure_future(app.ainvoke({}))
        for _ in range(50):
            await asyncio.sleep(0)
        go_on.set()
        return [(await run)["log"] for run in (first, second)]

    assert within(lambda: asyncio.run(main())) == [["slow", "quick"]] * 2
