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


def one(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


class Flaky:
    """A shop that fails a few times before its first charge; each charge has a receipt of its own."""

    def __init__(self, fails: int) -> None:
        self._fails, self._tries = fails, 0
        self.charges: list[Any] = []

    def charge(self, what: Any = "x") -> str:
        self._tries += 1
        if self._tries <= self._fails:
            raise ConnectionError("no luck")
        self.charges.append(what)
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
@pytest.mark.parametrize("fails", [0, 1, 3])
def test_a_subgraph_call_that_a_node_repeats_starts_over_in_its_place(
    driver: Any, saver: Any, fails: int, call: Any, memory: str, durability: Any
) -> None:
    shop, drafts = Flaky(fails), itertools.count(1)

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

    app = one(node).compile(saver)
    driver.invoke(app, {}, THREAD, durability=durability)
    driver.invoke(app, Command(resume="yes"), THREAD, durability=durability)
    assert not app.get_state(THREAD).next
    tries = [f"draft {count}" for count in range(1, fails + 2)]
    assert seen == [[tries if memory == "thread" else tries[-1:], "receipt 1", "receipt 2"]] * 2
    assert len(shop.charges) == 2


def test_a_retried_subgraph_call_continues_where_a_crash_left_it(driver: Any, saver: Any) -> None:
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

    app = one(node).compile(saver)
    with pytest.raises(KeyboardInterrupt):
        app.invoke({}, THREAD)
    assert driver.invoke(app, None, THREAD)["log"] == ["draft 2", "paid"]


@pytest.mark.parametrize("fails_at", range(5))
def test_a_failed_call_without_a_key_keeps_its_place_and_is_repeated(driver: Any, saver: Any, fails_at: int) -> None:
    """Whether a call with the same input is a retry cannot be told: here it is none."""
    paid: list[str] = []
    places, items = itertools.count(), ["a", "b", "a", "a", "c"]

    def pay(state: Order) -> Order:
        if next(places) == fails_at:
            raise ConnectionError
        paid.append(state["item"])
        return {"receipt": f"{state['item']} {len(paid)}"}

    order = StateGraph(Order).add_node(pay).add_edge(START, "pay").compile()

    def node(state: State) -> State:
        got: list[Any] = []
        for item in items:
            try:
                got.append(order.invoke({"item": item})["receipt"])
            except ConnectionError:
                got.append(None)
        return {"log": [*got, interrupt("?")]}

    app = one(node).compile(saver)
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, Command(resume="yes"), THREAD)["log"]
    assert [receipt.split()[0] for receipt in result[:-1]] == items
    assert sorted(paid) == sorted(items)


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.parametrize("how", ["batch", "abatch"])
def test_after_a_failure_no_other_call_of_a_batch_begins(how: str, checks: bool) -> None:
    paid: list[str] = []

    def pay(state: Order) -> Order:
        if state["item"] == "a":
            raise ConnectionError
        paid.append(state["item"])
        return {}

    graph = StateGraph(Order).add_node("pay", pay)
    if checks:
        graph.add_node("check", lambda state: None).add_edge(START, "check").add_edge("check", "pay")
    app = graph.compile() if checks else graph.add_edge(START, "pay").compile()
    inputs = [{"item": item} for item in "abc"]
    with pytest.raises(ConnectionError):
        app.batch(inputs, max_concurrency=1) if how == "batch" else asyncio.run(app.abatch(inputs, max_concurrency=1))
    assert paid == []


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("turns", [1, 2, 5])
def test_a_call_that_was_cancelled_continues_in_its_place(saver: Any, turns: int, durability: Any) -> None:
    """On the replay the first call is cancelled too, maybe before it has found its result."""
    entered, checks, paid = asyncio.Event(), itertools.count(), list[str]()

    async def check(state: Order) -> Order:
        if next(checks) == 0:
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

    app = one(node).compile(saver)
    asyncio.run(app.ainvoke({}, THREAD, durability=durability))
    asyncio.run(app.ainvoke(Command(resume="yes"), THREAD, durability=durability))
    assert (seen, paid) == (["paid 1"] * 2, ["a"])


# -- what is the same call


@pytest.mark.parametrize("memory", ["call", "thread"])
@pytest.mark.parametrize("keys", [(None, None), ("small", "large")])
def test_a_call_with_another_limit_is_numbered_separately(driver: Any, saver: Any, memory: Any, keys: Any) -> None:
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

    app = one(node).compile(saver)
    driver.invoke(app, {}, THREAD)
    answers = itertools.count(1)
    while app.get_state(THREAD).next:
        assert next(answers) < 5
        result = driver.invoke(app, Command(resume="shoes"), THREAD)
    assert (result["log"], paid) == (["shoes", "paid"], ["shoes"])


@pytest.mark.parametrize("saved", [True, False])
def test_a_key_may_be_used_again_for_a_call_that_failed(driver: Any, saved: bool) -> None:
    shop = Flaky(2)
    order = StateGraph(Order).add_node("pay", lambda state: {"receipt": shop.charge()}).add_edge(START, "pay").compile()

    def node(state: State) -> State:
        while True:
            try:
                receipt = order.invoke({"item": "shoes"}, call_key="order")["receipt"]
            except ConnectionError:
                continue
            return {"log": [receipt, interrupt("?") if saved else None]}

    app = one(node).compile(InMemorySaver() if saved else None)
    result = driver.invoke(app, {}, THREAD if saved else None)
    if saved:
        result = driver.invoke(app, Command(resume="yes"), THREAD)
    assert result["log"][0] == "receipt 1"


@pytest.mark.parametrize("saved", [True, False])
def test_a_call_that_saves_nothing_is_another_call_when_it_is_repeated(driver: Any, saved: bool) -> None:
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

    app = one(node).compile(InMemorySaver() if saved else None)
    assert driver.invoke(app, {}, THREAD if saved else None)["log"] == ["receipt 2"]


# -- with a recording, and with what earlier attempts left behind


@pytest.mark.parametrize("memory", ["call", "thread", "none"])
def test_a_repeated_call_is_replayed(tmp_path: Path, memory: Any) -> None:
    shop = Flaky(2)
    order = StateGraph(Order).add_sequence([("check", lambda state: {"drafts": ["checked"]}), ("pay", shop_pay(shop))])
    inner = order.add_edge(START, "check").compile(name="order")

    def node(state: State) -> State:
        while True:
            try:
                return {"log": [inner.invoke({"item": "a"}, memory=memory, call_key="a")["receipt"], interrupt("?")]}
            except ConnectionError:
                continue

    def build() -> Any:
        return one(node).compile(InMemorySaver())

    with record(build(), tmp_path / "run.replay") as app:
        app.invoke({}, THREAD)
        app.invoke(Command(resume="yes"), THREAD)
    calls = replay(tmp_path / "run.replay", build(), graphs=[inner])
    assert [(call.status, call.unchecked) for call in calls] == [("waiting", ()), ("completed", ())]


def shop_pay(shop: Flaky) -> Callable[[Order], Order]:
    return lambda state: {"receipt": shop.charge()}


def test_heartbeats_of_a_failed_attempt_keep_nothing_alive() -> None:
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

    inner = one(work, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False)).compile()
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


def test_the_memory_of_an_earlier_visit_does_not_block_the_next(driver: Any) -> None:
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
            pass  # how it ends depends on whether the run is over by then
        finally:
            done.set()

    def node(state: State) -> State:
        if not entered.is_set():
            context = contextvars.copy_context()
            threading.Thread(target=lambda: context.run(leave)).start()
            assert entered.wait(LONG)
            return {"log": ["left"]}
        return {"log": [order.invoke({"item": "second"}, memory="thread")["receipt"]]}

    app = one(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    result = driver.invoke(app, {}, THREAD)
    go_on.set()
    assert result["log"] == ["left", "second"]
    assert done.wait(LONG)
