"""Part I section 4.6: workflows written as one function."""

import asyncio
import operator
import threading
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    CachePolicy,
    Command,
    InMemoryCache,
    InMemorySaver,
    InMemoryStore,
    MessagesStateGraph,
    RetryPolicy,
    Runtime,
    StateGraph,
    append,
    entrypoint,
    interrupt,
    task,
)
from statewright.errors import (
    ConflictingWrites,
    InvalidGraph,
    InvalidUpdateError,
    NodeTimeoutError,
    NonDeterminismError,
    UnknownKeyWarning,
)
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}
RUNS: list[Any] = []


@pytest.fixture(autouse=True)
def runs() -> list[Any]:
    """Clear and return the log of executed tasks."""
    RUNS.clear()
    return RUNS


@task
def double(x: int) -> int:
    RUNS.append(x)
    return x * 2


@task
async def double_async(x: int) -> int:
    await asyncio.sleep(0)
    RUNS.append(x)
    return x * 2


def flow_of(kind: str, *, saver: Any = None) -> Any:
    """Return an entrypoint that doubles numbers, asks, and doubles again."""

    @entrypoint(saver)
    def plain(numbers: list[int]) -> Any:
        futures = [double(n) for n in numbers]
        doubled = [future.result() for future in futures]
        return [*doubled, interrupt("go on?"), double(100).result()]

    @entrypoint(saver)
    async def coroutine(numbers: list[int]) -> Any:
        doubled = await asyncio.gather(*(double_async(n) for n in numbers))
        return [*doubled, interrupt("go on?"), await double_async(100)]

    @entrypoint(saver)
    async def mixed(numbers: list[int]) -> Any:
        futures = [double(n) for n in numbers]
        doubled = [await future for future in futures]
        return [*doubled, interrupt("go on?"), await double_async(100)]

    return {"plain": plain, "coroutine": coroutine, "mixed": mixed}[kind]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "mixed"])
def test_4_6_completed_tasks_are_not_repeated(driver: Any, kind: str) -> None:
    flow = flow_of(kind, saver=InMemorySaver())

    (question,) = driver.invoke(flow, [1, 2, 3], THREAD)["__interrupt__"]
    assert (question.value, sorted(RUNS)) == ("go on?", [1, 2, 3])
    assert driver.invoke(flow, Command(resume="yes"), THREAD) == [2, 4, 6, "yes", 200]
    assert sorted(RUNS) == [1, 2, 3, 100]


def test_4_6_previous_is_the_result_of_the_last_run(driver: Any) -> None:
    @entrypoint(InMemorySaver())
    def total(x: int, *, previous: int | None = None) -> int:
        return x + (previous or 0)

    assert [driver.invoke(total, x, THREAD) for x in (1, 2, 3)] == [1, 3, 6]
    assert driver.invoke(total, 5, thread_id="2") == 5


def test_4_6_final_distinguishes_the_result_from_the_saved_value(driver: Any) -> None:
    @entrypoint(InMemorySaver())
    async def count(x: str, previous: int | None = None) -> Any:
        seen = (previous or 0) + 1
        return entrypoint.final(value=f"{x} {seen}", save=seen)

    assert [driver.invoke(count, "call", THREAD) for _ in range(3)] == ["call 1", "call 2", "call 3"]


def test_4_6_an_entrypoint_requests_values_by_parameter(driver: Any) -> None:
    @dataclass
    class Context:
        name: str

    store = InMemoryStore()

    @entrypoint(store=store, context_schema=Context)
    def flow(x: int, runtime: Runtime[Context], config: Any) -> Any:
        assert runtime.store is store
        return runtime.context.name, x, config["recursion_limit"]

    assert driver.invoke(flow, 1, context={"name": "ctx"}, recursion_limit=7) == ("ctx", 1, 7)


def test_4_6_tasks_of_plain_functions_run_concurrently(driver: Any) -> None:
    barrier = threading.Barrier(3, timeout=600)

    @task
    def meet(n: int) -> int:
        barrier.wait()
        return n

    @entrypoint()
    def flow(count: int) -> list[int]:
        return [future.result(timeout=600) for future in [meet(n) for n in range(count)]]

    assert driver.invoke(flow, 3) == [0, 1, 2]


def test_4_6_an_exception_of_a_task_is_raised_by_result(driver: Any) -> None:
    @task
    def bad() -> None:
        raise KeyError("inside")

    @task
    async def bad_async() -> None:
        raise KeyError("inside")

    @entrypoint()
    def plain(x: int) -> str:
        future = bad()
        with pytest.raises(KeyError) as raised:
            future.result()
        return f"caught {raised.value}" if future.exception() is raised.value else "another"

    @entrypoint()
    async def coroutine(x: int) -> str:
        try:
            await bad_async()
        except KeyError as error:
            return f"caught {error}"
        return "nothing"

    assert [driver.invoke(flow, 1) for flow in (plain, coroutine)] == ["caught 'inside'"] * 2


def test_4_6_only_failed_tasks_run_again(driver: Any) -> None:
    @task
    def third_time(x: int) -> int:
        RUNS.append("tried")
        if RUNS.count("tried") < 3:
            raise ConnectionError
        return x

    @entrypoint(InMemorySaver())
    def flow(x: int) -> Any:
        return double(x).result(), third_time(x).result()

    for value in (5, None):
        with pytest.raises(ConnectionError):
            driver.invoke(flow, value, THREAD)
    assert driver.invoke(flow, None, THREAD) == (10, 5)
    assert RUNS == [5, "tried", "tried", "tried"]


def test_4_6_reordered_calls_are_an_error(driver: Any) -> None:
    order = [1, 2]

    @entrypoint(InMemorySaver())
    def flow(x: int) -> Any:
        results = [double(n).result() for n in order]
        interrupt("?")
        return results

    driver.invoke(flow, 0, THREAD)
    order.reverse()
    with pytest.raises(NonDeterminismError, match="'double'"):
        driver.invoke(flow, Command(resume=1), THREAD)


def test_4_6_tasks_have_policies(driver: Any) -> None:
    clock, calls = FakeClock(jumps=True), []

    @task(retry_policy=RetryPolicy(jitter=False), cache_policy=CachePolicy(), name="flaky")
    def plain(x: int) -> int:
        calls.append(x)
        if len(calls) < 3:
            raise ConnectionError
        return x

    @task(retry_policy=RetryPolicy(jitter=False), cache_policy=CachePolicy(), name="flaky async")
    async def coroutine(x: int) -> int:
        return plain.__wrapped__(x)

    @task(timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(30)

    cache = InMemoryCache()
    for function in (plain, coroutine):

        @entrypoint(clock=clock, cache=cache)
        async def flow(x: int, function: Any = function) -> int:
            return await function(x)

        calls.clear()
        assert [driver.invoke(flow, 7) for _ in range(2)] == [7, 7]
        assert len(calls) == 3

    @entrypoint()
    async def late(x: int) -> None:
        await slow()

    with pytest.raises(NodeTimeoutError, match="'slow'"):
        driver.invoke(late, 1)


def test_4_6_a_task_may_ask_a_question(driver: Any) -> None:
    @task
    def ask(what: str) -> Any:
        return interrupt(what)

    @entrypoint(InMemorySaver())
    def flow(x: int) -> Any:
        first, second = ask("first?"), ask("second?")
        return first.result(), second.result()

    driver.invoke(flow, 1, THREAD)
    (question,) = driver.invoke(flow, Command(resume="a"), THREAD)["__interrupt__"]
    assert question.value == "second?"
    assert driver.invoke(flow, Command(resume="b"), THREAD) == ("a", "b")


def test_4_6_tasks_work_in_nodes_of_graphs(driver: Any) -> None:
    class State(TypedDict):
        x: int

    def node(state: State) -> dict[str, int]:
        return {"x": double(state["x"]).result() + interrupt("?")}

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(InMemorySaver())
    driver.invoke(app, {"x": 4}, THREAD)

    assert driver.invoke(app, Command(resume=1), THREAD) == {"x": 9}
    assert RUNS == [4]


class Tally(TypedDict, total=False):
    log: Annotated[list[Any], append]
    total: Annotated[int, operator.add]
    title: str


def compile_tally(node: Any) -> Any:
    return StateGraph(Tally).add_node("tally", node).add_edge(START, "tally").compile(InMemorySaver())


RESULTS: dict[str, Any] = {
    "values equal to the state": lambda state: {"log": ["seen"], "total": 1, "title": "same"},
    "the state itself": lambda state: state,
    "returns_command": lambda state: Command(update={"log": ["seen"], "total": 1}),
    "pairs": lambda state: [("total", 1), ("total", 1)],
    "nothing": lambda state: None,
}


@pytest.mark.parametrize("result", RESULTS)
def test_4_6_an_entrypoint_as_a_node_returns_the_result_of_its_function(driver: Any, result: str) -> None:
    function = RESULTS[result]

    async def coroutine(state: Any) -> Any:
        return function(state)

    nodes = [lambda state: function(state), entrypoint()(function), entrypoint()(coroutine)]
    outputs = [[driver.invoke(app, {}, THREAD) for _ in range(3)] for app in map(compile_tally, nodes)]
    assert outputs[1:] == outputs[:1] * 2


def test_4_6_two_entrypoints_that_write_one_field_conflict(driver: Any) -> None:
    @entrypoint()
    def title(state: Tally) -> dict[str, str]:
        return {"title": "same"}

    app = StateGraph(Tally).add_node("a", title).add_node("b", title).add_edge(START, "a").add_edge(START, "b")
    with pytest.raises(ConflictingWrites, match="'title' was written by 'a' and 'b'"):
        driver.invoke(app.compile(), {"title": "same"})


def test_4_6_an_unknown_field_in_the_result_of_an_entrypoint_is_reported(driver: Any) -> None:
    app = compile_tally(entrypoint()(lambda state: {"totl": 1}))
    with pytest.warns(UnknownKeyWarning, match="'totl'"):
        driver.invoke(app, {}, THREAD)


def test_4_6_an_entrypoint_may_return_a_message(driver: Any) -> None:
    @entrypoint()
    def say(state: Any) -> dict[str, str]:
        return {"role": "assistant", "content": "hello"}

    app = MessagesStateGraph().add_node("say", say).add_edge(START, "say").compile()
    assert [message.text for message in driver.invoke(app, {"messages": []})["messages"]] == ["hello"]


@pytest.mark.parametrize("limit", [1, 2])
def test_4_6_a_concurrency_limit_does_not_deadlock_nested_tasks(driver: Any, within: Any, limit: int) -> None:
    @task
    async def leaf(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @task
    async def branch(n: int) -> int:
        return sum([await future for future in [leaf(n), leaf(n)]])

    @entrypoint()
    async def flow(n: int) -> int:
        return sum([await future for future in [branch(k) for k in range(n)]])

    @task
    def plain_leaf(n: int) -> int:
        return n

    @task
    def plain_branch(n: int) -> int:
        return sum(future.result() for future in [plain_leaf(n), plain_leaf(n)])

    @entrypoint()
    def plain(n: int) -> int:
        return sum(future.result() for future in [plain_branch(k) for k in range(n)])

    for app in (flow, plain):
        assert within(lambda app=app: driver.invoke(app, 4, max_concurrency=limit)) == 12


def test_4_6_a_stream_reports_tasks_and_the_result(driver: Any) -> None:
    @entrypoint()
    def flow(x: int) -> int:
        return double(x).result() + 1

    assert driver.stream(flow, 3) == [{"double": 6}, {"flow": 7}]


def test_4_6_an_unawaited_task_is_cancelled_with_its_run() -> None:
    ended: list[str] = []

    @task
    async def long() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("cancelled")

    @entrypoint()
    async def flow(x: int) -> str:
        long()
        await asyncio.sleep(0)
        return "done"

    assert asyncio.run(flow.ainvoke(1)) == "done"
    assert ended == ["cancelled"]


def test_4_6_a_task_outside_a_graph_and_an_entrypoint_that_yields_are_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="outside a graph"):
        double(1)
    with pytest.raises(InvalidGraph, match="not a function that returns"):

        @entrypoint()
        def generator(x: int) -> Any:
            yield x


def test_4_6_the_state_of_an_entrypoint_can_be_read() -> None:
    flow = flow_of("plain", saver=InMemorySaver())
    flow.invoke([1], THREAD)

    snapshot = flow.get_state(THREAD)
    assert snapshot.next == ("plain",)
    assert [question.value for question in snapshot.interrupts] == ["go on?"]
