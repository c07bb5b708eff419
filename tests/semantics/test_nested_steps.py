"""Part I section 5.2: work inside a step, however often a node calls it, is numbered separately."""

from __future__ import annotations

import asyncio
import functools
import itertools
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    append,
    get_runtime,
    interrupt,
    task,
)
from statewright.clock import Clock
from statewright.errors import BudgetExceeded, InvalidUpdateError, RunCancelled
from statewright.graph import Budget, TimeoutPolicy
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}
LONG = 600


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


class Shop:
    """A shop that returns a numbered receipt for each charge."""

    def __init__(self) -> None:
        self.charges: list[Any] = []

    def charge(self, item: Any = "x") -> str:
        self.charges.append(item)
        return f"receipt {len(self.charges)}"


Work = Callable[[Shop], Any]


def charge_in_step(shop: Shop) -> Any:
    return get_runtime().step("charge", shop.charge)


def charge_in_task(shop: Shop) -> Any:
    return task(shop.charge, name="charge")().result()


def charge_in_subgraph(shop: Shop) -> Any:
    return one_node_graph(lambda state: {"log": [charge_in_step(shop)]}).compile().invoke({})["log"][0]


def ask_question(shop: Shop) -> Any:
    return interrupt("?")


def within_step(work: Work, shop: Shop) -> Any:
    return get_runtime().step("outer", lambda: work(shop))


def within_task(work: Work, shop: Shop) -> Any:
    return task(lambda: work(shop), name="outer")().result()


def one_node_graph(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


WORK = [charge_in_step, charge_in_task, charge_in_subgraph, ask_question]
WRAPPERS = [within_step, within_task]


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize(("nested", "next_to_it"), list(itertools.product(WORK, repeat=2)))
def test_calls_inside_a_step_do_not_shift_the_numbers_of_later_calls(
    driver: Any, wrapper: Any, nested: Work, next_to_it: Work
) -> None:
    shop = Shop()

    def node(state: State) -> State:
        results = [wrapper(nested, shop), next_to_it(shop), wrapper(nested, shop), next_to_it(shop)]
        return {"log": [*results, interrupt("and?")]}

    app = one_node_graph(node).compile(InMemorySaver())
    result, answers = driver.invoke(app, {}, THREAD), itertools.count()
    answers_given: list[str] = []
    while app.get_state(THREAD).next:
        answers_given.append(f"answer {next(answers)}")
        result = driver.invoke(app, Command(resume=answers_given[-1]), THREAD)
    count = (2 if nested is not ask_question else 0) + (2 if next_to_it is not ask_question else 0)
    assert len(shop.charges) == count
    assert sorted(result["log"]) == sorted([*(f"receipt {n + 1}" for n in range(count)), *answers_given])
    order = [entry for entry in result["log"] if entry.startswith("receipt")]
    assert order == sorted(order)


def by_get_runtime(runtime: Runtime[Any]) -> Runtime[Any]:
    return get_runtime()


def by_parameter(runtime: Runtime[Any]) -> Runtime[Any]:
    return runtime


@pytest.mark.parametrize("kind", ["plain", "coroutine", "awaitable"])
@pytest.mark.parametrize("outer", [by_get_runtime, by_parameter])
@pytest.mark.parametrize("inner", [by_get_runtime, by_parameter])
def test_a_nested_step_is_separate_whichever_runtime_calls_it(outer: Any, inner: Any, kind: str) -> None:
    shop = Shop()

    async def node(state: State, runtime: Runtime[Any]) -> State:
        async def work() -> str:
            return inner(runtime).step("charge", shop.charge)

        async def both() -> str:
            if kind == "plain":
                return outer(runtime).step("outer", lambda: inner(runtime).step("charge", shop.charge))
            return await outer(runtime).step("outer", work if kind == "coroutine" else lambda: work())

        results = [await both(), inner(runtime).step("charge", shop.charge), await both()]
        return {"log": [*results, interrupt("?")]}

    app = one_node_graph(node).compile(InMemorySaver())
    asyncio.run(app.ainvoke({}, THREAD))
    result = asyncio.run(app.ainvoke(Command(resume="yes"), THREAD))
    assert result["log"] == ["receipt 1", "receipt 2", "receipt 3", "yes"]
    assert len(shop.charges) == 3


class Flaky(Shop):
    """A shop that fails a few times before each charge."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures, self.tries = failures, 0

    def charge(self, item: Any = "x") -> str:
        self.tries += 1
        if self.tries <= self._failures:
            raise ConnectionError("not now")
        return super().charge(item)


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize(
    "work", [charge_in_step, charge_in_task, functools.partial(within_step, charge_in_step)], ids=["step", "task", "in"]
)
def test_a_call_that_a_node_repeats_is_journalled_once(driver: Any, work: Any, failures: int) -> None:
    shop = Flaky(failures)

    def node(state: State) -> State:
        receipt = None
        while receipt is None:
            try:
                receipt = work(shop)
            except ConnectionError:
                continue
        return {"log": [receipt, work(shop), interrupt("?")]}

    app = one_node_graph(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["receipt 1", "receipt 2", "yes"]
    assert len(shop.charges) == 2


def test_the_position_of_a_failed_call_is_not_reused_with_other_arguments(driver: Any) -> None:
    shop, failures = Shop(), iter([True])

    def charge(item: str) -> str:
        if item == "c" and next(failures, False):
            raise ConnectionError
        return shop.charge(item)

    def node(state: State) -> State:
        pay = task(charge)
        futures = [pay(item) for item in "abc"]
        receipts = [str(future.exception() or future.result()) for future in futures]
        last = pay("d").result()
        return {"log": [len(receipts), last.startswith("receipt"), interrupt("?")]}

    app = one_node_graph(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == [3, True, "yes"]
    assert sorted(shop.charges) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("inner", [charge_in_step, charge_in_task])
def test_a_fallback_inside_a_step_of_a_cancelled_run_is_dropped(driver: Any, inner: Work) -> None:
    shop, entered, go_on = Shop(), threading.Event(), threading.Event()

    def helper() -> Any:
        entered.set()
        assert go_on.wait(LONG)
        try:
            return inner(shop)
        except Exception:
            return "fallback"

    app = one_node_graph(lambda state: {"log": [get_runtime().step("outer", helper)]}).compile(InMemorySaver())
    control = RunControl()

    def stop() -> None:
        assert entered.wait(LONG)
        control.request_cancel("enough")
        go_on.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(RunCancelled):
        driver.invoke(app, {}, THREAD, control=control)
    stopper.join()
    assert driver.invoke(app, None, THREAD)["log"] == ["receipt 1"]
    assert len(shop.charges) == 1


@pytest.mark.parametrize("is_saved", [False, True])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_retried_node_does_not_repeat_the_steps_of_an_unsaved_call(
    driver: Any, is_saved: bool, is_nested: bool
) -> None:
    shop, tries = Shop(), itertools.count()
    sub = one_node_graph(lambda state: {"log": [charge_in_step(shop)]}).add_node(
        "more", lambda state: {"log": [charge_in_step(shop)]}
    )
    inner: Any = sub.add_edge("node", "more").compile()
    if is_nested or is_saved:
        inner = StateGraph(State).add_node("sub", inner, memory="none").add_edge(START, "sub").compile()

    def node(state: State) -> State:
        results = inner.invoke({})["log"]
        if next(tries) == 0:
            raise ConnectionError
        return {"log": results}

    retries = RetryPolicy(initial_interval=0.001, jitter=False)
    app = one_node_graph(node, retry_policy=retries).compile(InMemorySaver() if is_saved else None)
    assert driver.invoke(app, {}, THREAD if is_saved else None)["log"] == ["receipt 1", "receipt 2"]
    assert len(shop.charges) == 2


@pytest.mark.parametrize("work", [charge_in_step, charge_in_task])
def test_a_step_in_a_conditional_entry_is_refused_before_it_runs(driver: Any, work: Work) -> None:
    shop = Shop()

    def route(state: State) -> str:
        work(shop)
        return "a"

    graph = StateGraph(State).add_node("a", lambda state: {"log": ["a"]}).add_conditional_edges(START, route, ["a"])
    with pytest.raises(InvalidUpdateError, match="Call it in a node"):
        driver.invoke(graph.compile(InMemorySaver()), {}, THREAD)
    outer = one_node_graph(lambda state: {"log": graph.compile().invoke({})["log"]}).compile(InMemorySaver())
    with pytest.raises(InvalidUpdateError, match="Call it in a node"):
        driver.invoke(outer, {}, THREAD)
    assert shop.charges == []


@pytest.mark.anyio
async def test_coroutines_of_a_task_group_may_ask_questions() -> None:
    async def ask(item: str) -> str:
        return interrupt(item, key=item)

    async def node(state: State) -> State:
        async with asyncio.TaskGroup() as group:
            question_tasks = [group.create_task(ask(value)) for value in "ab"]
        return {"log": [task.result() for task in question_tasks]}

    app = one_node_graph(node).compile(InMemorySaver())
    await app.ainvoke({}, THREAD)
    result: Any = None
    for _ in range(2):
        [*questions] = app.get_state(THREAD).interrupts
        result = await app.ainvoke(Command(resume={questions[0].id: questions[0].value.upper()}), THREAD)
    assert result["log"] == ["A", "B"]


def test_a_question_key_must_be_a_string(driver: Any) -> None:
    app = one_node_graph(lambda state: {"log": [interrupt("?", key=1)]}).compile(InMemorySaver())  # type: ignore[arg-type]
    with pytest.raises(InvalidUpdateError, match="Pass a string"):
        driver.invoke(app, {}, THREAD)


class Abandoned:
    """A node whose first attempt times out, and calls a function while the second attempt runs."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do, self._tries = do, itertools.count()
        self._second, self._done = threading.Event(), threading.Event()

    def __call__(self, state: State) -> State:
        if next(self._tries) == 0:
            assert self._second.wait(LONG)
            try:
                self._do()
            finally:
                self._done.set()
            return {"log": ["late"]}
        self._second.set()
        assert self._done.wait(LONG)
        return {"log": ["second"]}


def graph_with_short_timeout(node: Any, **options: Any) -> StateGraph:
    retries = RetryPolicy(max_attempts=100_000, initial_interval=0.001, backoff_factor=1, jitter=False)
    return one_node_graph(node, timeout=0.3, retry_policy=retries, **options)


def test_spending_of_an_abandoned_attempt_is_not_counted(driver: Any) -> None:
    abandoned = Abandoned(lambda: get_runtime().spend(tokens=2000))
    app = graph_with_short_timeout(abandoned).compile(InMemorySaver(), budget=Budget(max_tokens=1000))
    try:
        assert driver.invoke(app, {}, THREAD)["log"] == ["second"]
    except BudgetExceeded:
        pytest.fail("The spending of the abandoned attempt was counted.")


def test_output_of_a_call_of_an_abandoned_attempt_is_not_streamed(driver: Any) -> None:
    abandoned = Abandoned(lambda: sub.invoke({}))
    sub = one_node_graph(lambda state: get_runtime().stream_writer("late")).compile()
    app = graph_with_short_timeout(abandoned).compile(InMemorySaver())
    assert driver.stream(app, {}, THREAD, stream_mode="custom") == []


def test_a_late_step_result_is_dropped_if_the_next_attempt_runs_the_step(driver: Any) -> None:
    shop, tries = Shop(), itertools.count()
    second, done = threading.Event(), threading.Event()

    def charge() -> str:
        receipt = shop.charge()
        if receipt == "receipt 1":
            assert second.wait(LONG)
        else:
            second.set()
            assert done.wait(LONG)
        return receipt

    def node(state: State) -> State:
        number = next(tries)
        try:
            return {"log": [get_runtime().step("charge", charge)]}
        finally:
            if number == 0:
                done.set()

    app = graph_with_short_timeout(node).compile(InMemorySaver())
    assert driver.invoke(app, {}, THREAD)["log"] != ["receipt 1"]


@pytest.mark.parametrize("caller", ["node", "task", "graph", "graph of a graph"])
def test_a_heartbeat_counts_for_all_waiting_callers(driver: Any, caller: str) -> None:
    clock: Clock = FakeClock()

    def send_heartbeats(state: State) -> State:
        for _ in range(4):
            clock.advance(5)  # type: ignore[attr-defined]
            get_runtime().heartbeat()
        return {"log": ["alive"]}

    sub = one_node_graph(send_heartbeats).compile()
    calls: dict[str, Callable[[State], Any]] = {
        "node": send_heartbeats,
        "task": lambda state: task(lambda: send_heartbeats(state), timeout=LONG)().result(),
        "graph": lambda state: sub.invoke({}),
        "graph of a graph": lambda state: (
            one_node_graph(lambda inner: {"log": sub.invoke({})["log"]}).compile().invoke({})
        ),
    }
    app = one_node_graph(lambda state: {"log": calls[caller](state)["log"]}, timeout=TimeoutPolicy(idle_timeout=8))
    assert driver.invoke(app.compile(InMemorySaver(), clock=clock), {}, THREAD)["log"] == ["alive"]
