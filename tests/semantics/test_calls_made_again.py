"""Part I sections 5.2 and 6: subgraph calls that a node repeats after a failure."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, RetryPolicy, Runtime, StateGraph, append, get_runtime, interrupt
from statewright.errors import GraphRecursionError, NodeTimeoutError
from statewright.graph import TimeoutPolicy
from statewright.testing import FakeClock, record, replay

THREAD = {"thread_id": "1"}
LONG = 600


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


def one_node_graph(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


class Flaky:
    """A shop that fails a few times before its first charge, and numbers its receipts."""

    def __init__(self, failures: int) -> None:
        self._failures, self._tries = failures, 0
        self.charges: list[Any] = []

    def charge(self, item: Any = "x") -> str:
        self._tries += 1
        if self._tries <= self._failures:
            raise ConnectionError("not now")
        self.charges.append(item)
        return f"receipt {len(self.charges)}"


class Order(TypedDict, total=False):
    item: str
    drafts: Annotated[list[str], append]
    receipt: str


def by_invoke(graph: Any, **options: Any) -> Any:
    return graph.invoke({"item": "shoes"}, **options)


def by_stream(graph: Any, **options: Any) -> Any:
    return list(graph.stream({"item": "shoes"}, stream_mode="values", **options))[-1]


def by_batch(graph: Any, **options: Any) -> Any:
    return graph.batch([{"item": "shoes"}], **options)[0]


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("memory", ["call", "thread"])
@pytest.mark.parametrize("call", [by_invoke, by_stream, by_batch])
@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.sampled(4)
def test_a_repeated_subgraph_call_with_the_same_key_starts_over(
    driver: Any, saver: Any, failures: int, call: Any, memory: str, durability: Any
) -> None:
    shop, drafts = Flaky(failures), itertools.count(1)

    def draft(state: Order, runtime: Runtime[Any]) -> Order:
        return {"drafts": [runtime.step("draft", lambda: f"draft {next(drafts)}")]}

    def pay(state: Order) -> Order:
        return {"receipt": shop.charge()}

    order = StateGraph(Order).add_sequence([draft, pay]).add_edge(START, "draft").compile()
    seen: list[Any] = []

    def node(state: State) -> State:
        result = None
        while result is None:
            try:
                result = call(order, memory=memory, call_key="order")
            except ConnectionError:
                continue
        seen.append([result["drafts"], result["receipt"]])
        other = call(order, memory=memory, call_key="another order")
        seen[-1].append(other["receipt"])
        return {"log": [interrupt("?")]}

    app = one_node_graph(node).compile(saver)
    driver.invoke(app, {}, THREAD, durability=durability)
    driver.invoke(app, Command(resume="yes"), THREAD, durability=durability)
    assert not app.get_state(THREAD).next
    tries = [f"draft {count}" for count in range(1, failures + 2)]
    assert seen == [[tries if memory == "thread" else tries[-1:], "receipt 1", "receipt 2"]] * 2
    assert len(shop.charges) == 2


def test_a_repeated_subgraph_call_continues_after_a_crash(driver: Any, saver: Any) -> None:
    tries, drafts = itertools.count(), itertools.count(1)

    def draft(state: Order) -> Order:
        return {"drafts": [f"draft {next(drafts)}"]}

    def pay(state: Order) -> Order:
        match next(tries):
            case 0:
                raise ConnectionError
            case 1:
                raise KeyboardInterrupt
            case _:
                return {"receipt": "paid"}

    order = StateGraph(Order).add_sequence([draft, pay]).add_edge(START, "draft").compile()

    def node(state: State) -> State:
        while True:
            try:
                result = order.invoke({"item": "shoes"}, call_key="order")
            except ConnectionError:
                continue
            return {"log": [*result["drafts"], result["receipt"]]}

    app = one_node_graph(node).compile(saver)
    with pytest.raises(KeyboardInterrupt):
        app.invoke({}, THREAD)
    assert driver.invoke(app, None, THREAD)["log"] == ["draft 2", "paid"]


@pytest.mark.parametrize("failing_call", range(5))
def test_a_failed_call_without_a_key_keeps_its_number(driver: Any, saver: Any, failing_call: int) -> None:
    """A call with the same input might be a retry; here it is not."""
    paid: list[str] = []
    call_numbers, items = itertools.count(), ["a", "b", "a", "a", "c"]

    def pay(state: Order) -> Order:
        if next(call_numbers) == failing_call:
            raise ConnectionError
        paid.append(state["item"])
        return {"receipt": f"{state['item']} {len(paid)}"}

    order = StateGraph(Order).add_node(pay).add_edge(START, "pay").compile()

    def node(state: State) -> State:
        receipts: list[Any] = []
        for item in items:
            try:
                receipts.append(order.invoke({"item": item})["receipt"])
            except ConnectionError:
                receipts.append(None)
        return {"log": [*receipts, interrupt("?")]}

    app = one_node_graph(node).compile(saver)
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, Command(resume="yes"), THREAD)["log"]
    assert [receipt.split()[0] for receipt in result[:-1]] == items
    assert sorted(paid) == sorted(items)


@pytest.mark.parametrize("has_check", [False, True])
@pytest.mark.parametrize("method", ["batch", "abatch"])
def test_a_batch_begins_no_call_after_a_failure(method: str, has_check: bool) -> None:
    paid: list[str] = []

    def pay(state: Order) -> Order:
        if state["item"] == "a":
            raise ConnectionError
        paid.append(state["item"])
        return {}

    graph = StateGraph(Order).add_node("pay", pay)
    if has_check:
        graph.add_node("check", lambda state: None).add_edge(START, "check").add_edge("check", "pay")
    app = graph.compile() if has_check else graph.add_edge(START, "pay").compile()
    inputs = [{"item": item} for item in "abc"]
    with pytest.raises(ConnectionError):
        app.batch(inputs, max_concurrency=1) if method == "batch" else asyncio.run(
            app.abatch(inputs, max_concurrency=1)
        )
    assert paid == []


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_cancelled_call_continues_under_its_key(saver: Any, turns: int, durability: Any) -> None:
    """When the node runs again, the first call is cancelled too, perhaps before it has loaded its result."""
    entered, has_check, paid = asyncio.Event(), itertools.count(), list[str]()

    async def check(state: Order) -> Order:
        if next(has_check) == 0:
            entered.set()
            await asyncio.sleep(LONG)
        return {}

    def pay(state: Order) -> Order:
        paid.append(state["item"])
        return {"receipt": f"paid {len(paid)}"}

    order = StateGraph(Order).add_sequence([check, pay]).add_edge(START, "check").compile()
    seen: list[str] = []

    async def node(state: State) -> State:
        first = asyncio.create_task(order.ainvoke({"item": "a"}, call_key="order"))
        if not seen:
            await entered.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        try:
            result = await first
        except asyncio.CancelledError:
            result = await order.ainvoke({"item": "a"}, call_key="order")
        seen.append(result["receipt"])
        return {"log": [interrupt("?")]}

    app = one_node_graph(node).compile(saver)
    asyncio.run(app.ainvoke({}, THREAD, durability=durability))
    asyncio.run(app.ainvoke(Command(resume="yes"), THREAD, durability=durability))
    assert (seen, paid) == (["paid 1"] * 2, ["a"])


# -- the identity of a call


@pytest.mark.parametrize("memory", ["call", "thread"])
@pytest.mark.parametrize("keys", [(None, None), ("small", "large")])
def test_calls_with_different_recursion_limits_are_separate(driver: Any, saver: Any, memory: Any, keys: Any) -> None:
    paid: list[str] = []

    def ask(state: Order) -> Order:
        return {"item": interrupt("which?")}

    def pay(state: Order) -> Order:
        paid.append(state["item"])
        return {"receipt": "paid"}

    order = StateGraph(Order).add_sequence([("check", lambda state: None), ask, pay]).add_edge(START, "check").compile()

    def node(state: State) -> State:
        try:
            result = order.invoke({"item": "?"}, recursion_limit=1, memory=memory, call_key=keys[0])
        except GraphRecursionError:
            result = order.invoke({"item": "?"}, recursion_limit=10, memory=memory, call_key=keys[1])
        return {"log": [result["item"], result["receipt"]]}

    app = one_node_graph(node).compile(saver)
    driver.invoke(app, {}, THREAD)
    answers = itertools.count(1)
    while app.get_state(THREAD).next:
        assert next(answers) < 5
        result = driver.invoke(app, Command(resume="shoes"), THREAD)
    assert (result["log"], paid) == (["shoes", "paid"], ["shoes"])


@pytest.mark.parametrize("is_saved", [True, False])
def test_the_key_of_a_failed_call_may_be_reused(driver: Any, is_saved: bool) -> None:
    shop = Flaky(2)
    order = StateGraph(Order).add_node("pay", lambda state: {"receipt": shop.charge()}).add_edge(START, "pay").compile()

    def node(state: State) -> State:
        while True:
            try:
                receipt = order.invoke({"item": "shoes"}, call_key="order")["receipt"]
            except ConnectionError:
                continue
            return {"log": [receipt, interrupt("?") if is_saved else None]}

    app = one_node_graph(node).compile(InMemorySaver() if is_saved else None)
    result = driver.invoke(app, {}, THREAD if is_saved else None)
    if is_saved:
        result = driver.invoke(app, Command(resume="yes"), THREAD)
    assert result["log"][0] == "receipt 1"


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_repeated_unsaved_call_is_a_new_call(driver: Any, is_saved: bool) -> None:
    tries = itertools.count(1)

    def pay(state: Order, runtime: Runtime[Any]) -> Order:
        number = next(tries)
        receipt = runtime.step("pay", lambda count: f"receipt {count}", number)
        if number == 1:
            raise ConnectionError
        return {"receipt": receipt}

    order = StateGraph(Order).add_node(pay).add_edge(START, "pay").compile()

    def node(state: State) -> State:
        try:
            return {"log": [order.invoke({"item": "a"}, memory="none")["receipt"]]}
        except ConnectionError:
            return {"log": [order.invoke({"item": "a"}, memory="none")["receipt"]]}

    app = one_node_graph(node).compile(InMemorySaver() if is_saved else None)
    assert driver.invoke(app, {}, THREAD if is_saved else None)["log"] == ["receipt 2"]


# -- recordings, and leftovers of earlier attempts


@pytest.mark.parametrize("memory", ["call", "thread", "none"])
def test_a_repeated_call_is_replayed(tmp_path: Path, memory: Any) -> None:
    shop = Flaky(2)
    order = StateGraph(Order).add_sequence([("check", lambda state: {"drafts": ["checked"]}), ("pay", pay_at(shop))])
    inner = order.add_edge(START, "check").compile(name="order")

    def node(state: State) -> State:
        while True:
            try:
                return {"log": [inner.invoke({"item": "a"}, memory=memory, call_key="a")["receipt"], interrupt("?")]}
            except ConnectionError:
                continue

    def build() -> Any:
        return one_node_graph(node).compile(InMemorySaver())

    with record(build(), tmp_path / "run.replay") as app:
        app.invoke({}, THREAD)
        app.invoke(Command(resume="yes"), THREAD)
    calls = replay(tmp_path / "run.replay", build(), graphs=[inner])
    assert [(call.status, call.unchecked) for call in calls] == [("waiting", ()), ("completed", ())]


def pay_at(shop: Flaky) -> Callable[[Order], Order]:
    return lambda state: {"receipt": shop.charge()}


def test_heartbeats_of_a_failed_attempt_do_not_delay_a_timeout() -> None:
    clock, attempts, go_on = FakeClock(), list[int](), threading.Event()
    beats, hangs = threading.Event(), threading.Event()

    def beat(context: Callable[[], Any]) -> None:
        while not go_on.wait(0.001):
            context()
            beats.set()

    def work(state: State) -> State:
        attempts.append(1)
        if len(attempts) == 1:
            context = contextvars.copy_context()
            heartbeat = get_runtime().heartbeat
            threading.Thread(target=lambda: context.run(beat, heartbeat)).start()
            raise ConnectionError
        hangs.set()
        assert go_on.wait(LONG)
        return {"log": ["too late"]}

    inner = one_node_graph(work, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False)).compile()
    graph = StateGraph(State).add_node("outer", inner, timeout=TimeoutPolicy(idle_timeout=10)).add_edge(START, "outer")
    app = graph.compile(InMemorySaver(), clock=clock)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            app.invoke({}, THREAD)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert hangs.wait(LONG)
    for _ in range(4):
        beats.clear()
        assert beats.wait(LONG)
        clock.advance(4)
    thread.join(LONG)
    go_on.set()
    assert [type(error) for error in errors] == [NodeTimeoutError]


def test_a_call_left_behind_does_not_block_later_calls(driver: Any) -> None:
    entered, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def work(state: Order) -> Order:
        if state["item"] == "first":
            entered.set()
            assert go_on.wait(LONG)
        return {"receipt": state["item"]}

    order = StateGraph(Order).add_node(work).add_edge(START, "work").compile()

    def leave() -> None:
        try:
            order.invoke({"item": "first"}, memory="thread")
        except BaseException:
            pass  # the result depends on whether the run has ended by then
        finally:
            done.set()

    def node(state: State) -> State:
        if not entered.is_set():
            context = contextvars.copy_context()
            threading.Thread(target=lambda: context.run(leave)).start()
            assert entered.wait(LONG)
            return {"log": ["left"]}
        return {"log": [order.invoke({"item": "second"}, memory="thread")["receipt"]]}

    app = one_node_graph(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, {}, THREAD)
    go_on.set()
    assert result["log"] == ["left", "second"]
    assert done.wait(LONG)
