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
    """Charges, each charge with a receipt of its own."""

    def __init__(self) -> None:
        self.charges: list[Any] = []

    def charge(self, what: Any = "x") -> str:
        self.charges.append(what)
        return f"receipt {len(self.charges)}"


Work = Callable[[Shop], Any]


def charges(shop: Shop) -> Any:
    return get_runtime().step("charge", shop.charge)


def calls_task(shop: Shop) -> Any:
    return task(shop.charge, name="charge")().result()


def calls_graph(shop: Shop) -> Any:
    return one(lambda state: {"log": [charges(shop)]}).compile().invoke({})["log"][0]


def asks(shop: Shop) -> Any:
    return interrupt("?")


def in_step(work: Work, shop: Shop) -> Any:
    return get_runtime().step("outer", lambda: work(shop))


def in_task(work: Work, shop: Shop) -> Any:
    return task(lambda: work(shop), name="outer")().result()


def one(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


WORK = [charges, calls_task, calls_graph, asks]
AROUND = [in_step, in_task]


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(("inside", "beside"), list(itertools.product(WORK, repeat=2)))
def test_work_inside_a_journalled_step_is_not_counted_again(
    driver: Any, around: Any, inside: Work, beside: Work
) -> None:
    shop = Shop()

    def node(state: State) -> State:
        got = [around(inside, shop), beside(shop), around(inside, shop), beside(shop)]
        return {"log": [*got, interrupt("and?")]}

    app = one(node).compile(InMemorySaver())
    result, answers = driver.invoke(app, {}, THREAD), itertools.count()
    given: list[str] = []
    while app.get_state(THREAD).next:
        given.append(f"answer {next(answers)}")
        result = driver.invoke(app, Command(resume=given[-1]), THREAD)
    pays = (2 if inside is not asks else 0) + (2 if beside is not asks else 0)
    assert len(shop.charges) == pays
    assert sorted(result["log"]) == sorted([*(f"receipt {n + 1}" for n in range(pays)), *given])
    order = [entry for entry in result["log"] if entry.startswith("receipt")]
    assert order == sorted(order)


def through_get_runtime(runtime: Runtime[Any]) -> Runtime[Any]:
    return get_runtime()


def through_parameter(runtime: Runtime[Any]) -> Runtime[Any]:
    return runtime


@pytest.mark.parametrize("colour", ["plain", "coroutine", "awaitable"])
@pytest.mark.parametrize("outer", [through_get_runtime, through_parameter])
@pytest.mark.parametrize("inner", [through_get_runtime, through_parameter])
def test_a_step_inside_a_step_is_its_own_whatever_it_is_called_by(outer: Any, inner: Any, colour: str) -> None:
    shop = Shop()

    async def node(state: State, runtime: Runtime[Any]) -> State:
        async def work() -> str:
            return inner(runtime).step("charge", shop.charge)

        async def both() -> str:
            if colour == "plain":
                return outer(runtime).step("outer", lambda: inner(runtime).step("charge", shop.charge))
            return await outer(runtime).step("outer", work if colour == "coroutine" else lambda: work())

        got = [await both(), inner(runtime).step("charge", shop.charge), await both()]
        return {"log": [*got, interrupt("?")]}

    app = one(node).compile(InMemorySaver())
    asyncio.run(app.ainvoke({}, THREAD))
    result = asyncio.run(app.ainvoke(Command(resume="yes"), THREAD))
    assert result["log"] == ["receipt 1", "receipt 2", "receipt 3", "yes"]
    assert len(shop.charges) == 3


class Flaky(Shop):
    """A shop that fails a few times before each charge."""

    def __init__(self, fails: int) -> None:
        super().__init__()
        self._fails, self.tries = fails, 0

    def charge(self, what: Any = "x") -> str:
        self.tries += 1
        if self.tries <= self._fails:
            raise ConnectionError("no luck")
        return super().charge(what)


@pytest.mark.parametrize("fails", [0, 1, 3])
@pytest.mark.parametrize("work", [charges, calls_task, functools.partial(in_step, charges)], ids=["step", "task", "in"])
def test_a_call_that_a_node_retries_is_found_in_its_place(driver: Any, work: Any, fails: int) -> None:
    shop = Flaky(fails)

    def node(state: State) -> State:
        receipt = None
        while receipt is None:
            try:
                receipt = work(shop)
            except ConnectionError:
                continue
        return {"log": [receipt, work(shop), interrupt("?")]}

    app = one(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["receipt 1", "receipt 2", "yes"]
    assert len(shop.charges) == 2


def test_the_position_of_a_failed_call_is_not_reused_with_other_arguments(driver: Any) -> None:
    shop, fails = Shop(), iter([True])

    def charge(what: str) -> str:
        if what == "c" and next(fails, False):
            raise ConnectionError
        return shop.charge(what)

    def node(state: State) -> State:
        pay = task(charge)
        futures = [pay(what) for what in "abc"]
        receipts = [str(future.exception() or future.result()) for future in futures]
        last = pay("d").result()
        return {"log": [len(receipts), last.startswith("receipt"), interrupt("?")]}

    app = one(node).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD)
    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == [3, True, "yes"]
    assert sorted(shop.charges) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("inner", [charges, calls_task])
def test_a_fallback_inside_a_step_of_a_cancelled_run_is_void(driver: Any, inner: Work) -> None:
    shop, entered, go_on = Shop(), threading.Event(), threading.Event()

    def helper() -> Any:
        entered.set()
        assert go_on.wait(LONG)
        try:
            return inner(shop)
        except Exception:
            return "fallback"

    app = one(lambda state: {"log": [get_runtime().step("outer", helper)]}).compile(InMemorySaver())
    control = RunControl()

    def stop() -> None:
        assert entered.wait(LONG)
        control.request_cancel("enough")
        go_on.set()

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(RunCancelled):
        driver.invoke(app, {}, THREAD, control=control)
    stopping.join()
    assert driver.invoke(app, None, THREAD)["log"] == ["receipt 1"]
    assert len(shop.charges) == 1


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("deep", [False, True])
def test_a_call_that_saves_nothing_does_not_repeat_its_steps_when_its_caller_is_retried(
    driver: Any, saved: bool, deep: bool
) -> None:
    shop, tries = Shop(), itertools.count()
    sub = one(lambda state: {"log": [charges(shop)]}).add_node("more", lambda state: {"log": [charges(shop)]})
    inner: Any = sub.add_edge("node", "more").compile()
    if deep or saved:
        inner = StateGraph(State).add_node("sub", inner, memory="none").add_edge(START, "sub").compile()

    def node(state: State) -> State:
        got = inner.invoke({})["log"]
        if next(tries) == 0:
            raise ConnectionError
        return {"log": got}

    again = RetryPolicy(initial_interval=0.001, jitter=False)
    app = one(node, retry_policy=again).compile(InMemorySaver() if saved else None)
    assert driver.invoke(app, {}, THREAD if saved else None)["log"] == ["receipt 1", "receipt 2"]
    assert len(shop.charges) == 2


@pytest.mark.parametrize("work", [charges, calls_task])
def test_a_step_where_nothing_is_saved_yet_is_refused_before_it_is_done(driver: Any, work: Work) -> None:
    shop = Shop()

    def route(state: State) -> str:
        work(shop)
        return "a"

    graph = StateGraph(State).add_node("a", lambda state: {"log": ["a"]}).add_conditional_edges(START, route, ["a"])
    with pytest.raises(InvalidUpdateError, match="Call it in a node"):
        driver.invoke(graph.compile(InMemorySaver()), {}, THREAD)
    outer = one(lambda state: {"log": graph.compile().invoke({})["log"]}).compile(InMemorySaver())
    with pytest.raises(InvalidUpdateError, match="Call it in a node"):
        driver.invoke(outer, {}, THREAD)
    assert shop.charges == []


@pytest.mark.anyio
async def test_questions_of_a_task_group_are_questions() -> None:
    async def ask(what: str) -> str:
        return interrupt(what, key=what)

    async def node(state: State) -> State:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask(what)) for what in "ab"]
        return {"log": [one.result() for one in asked]}

    app = one(node).compile(InMemorySaver())
    await app.ainvoke({}, THREAD)
    result: Any = None
    for _ in range(2):
        [*questions] = app.get_state(THREAD).interrupts
        result = await app.ainvoke(Command(resume={questions[0].id: questions[0].value.upper()}), THREAD)
    assert result["log"] == ["A", "B"]


def test_the_key_of_a_question_is_text(driver: Any) -> None:
    app = one(lambda state: {"log": [interrupt("?", key=1)]}).compile(InMemorySaver())  # type: ignore[arg-type]
    with pytest.raises(InvalidUpdateError, match="Pass a string"):
        driver.invoke(app, {}, THREAD)


class Gone:
    """A node of which the first attempt is given up, and does something when another one is at work."""

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


def given_up(node: Any, **options: Any) -> StateGraph:
    again = RetryPolicy(max_attempts=100_000, initial_interval=0.001, backoff_factor=1, jitter=False)
    return one(node, timeout=0.3, retry_policy=again, **options)


def test_spending_of_an_abandoned_attempt_is_not_counted(driver: Any) -> None:
    gone = Gone(lambda: get_runtime().spend(tokens=2000))
    app = given_up(gone).compile(InMemorySaver(), budget=Budget(max_tokens=1000))
    try:
        assert driver.invoke(app, {}, THREAD)["log"] == ["second"]
    except BudgetExceeded:
        pytest.fail("what nobody waits for was counted")


def test_output_of_a_call_of_an_abandoned_attempt_is_not_streamed(driver: Any) -> None:
    gone = Gone(lambda: sub.invoke({}))
    sub = one(lambda state: get_runtime().stream_writer("late")).compile()
    app = given_up(gone).compile(InMemorySaver())
    assert driver.stream(app, {}, THREAD, stream_mode="custom") == []


def test_the_late_result_of_a_step_is_dropped_if_the_next_attempt_is_at_it(driver: Any) -> None:
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

    app = given_up(node).compile(InMemorySaver())
    assert driver.invoke(app, {}, THREAD)["log"] != ["receipt 1"]


@pytest.mark.parametrize("way", ["node", "task", "graph", "graph of a graph"])
def test_a_sign_of_life_counts_for_all_that_wait(driver: Any, way: str) -> None:
    clock: Clock = FakeClock()

    def beats(state: State) -> State:
        for _ in range(4):
            clock.advance(5)  # type: ignore[attr-defined]
            get_runtime().heartbeat()
        return {"log": ["alive"]}

    sub = one(beats).compile()
    calls: dict[str, Callable[[State], Any]] = {
        "node": beats,
        "task": lambda state: task(lambda: beats(state), timeout=LONG)().result(),
        "graph": lambda state: sub.invoke({}),
        "graph of a graph": lambda state: one(lambda inner: {"log": sub.invoke({})["log"]}).compile().invoke({}),
    }
    app = one(lambda state: {"log": calls[way](state)["log"]}, timeout=TimeoutPolicy(idle_timeout=8))
    assert driver.invoke(app.compile(InMemorySaver(), clock=clock), {}, THREAD)["log"] == ["alive"]
