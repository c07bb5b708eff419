"""Part I section 5.2: side effects that happen once."""

import asyncio
import itertools
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    Command,
    InMemorySaver,
    RetryPolicy,
    Runtime,
    StateGraph,
    append,
    get_runtime,
    interrupt,
    task,
)
from statewright.errors import InvalidUpdateError, NodeTimeoutError, NonDeterminismError
from statewright.futures import LightFuture
from statewright.testing import FakeClock

THREAD = {"thread_id": "1"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class Service:
    """A service that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def charge(self, amount: int) -> str:
        self.calls.append(amount)
        return f"receipt {len(self.calls)}"

    async def charge_async(self, amount: int) -> str:
        await asyncio.sleep(0)
        return self.charge(amount)


@pytest.fixture
def service() -> Service:
    return Service()


def compile_node(node: Any, saver: Any = None, **options: Any) -> Any:
    clock = options.pop("clock", None)
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node").compile(saver, clock=clock)


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_2_a_step_is_done_once_however_often_its_node_runs(driver: Any, service: Service, kind: str) -> None:
    def plain(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        receipt = runtime.step("charge", service.charge, 10)
        return {"log": [receipt, interrupt("ok?"), interrupt("sure?")]}

    async def coroutine(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        receipt = await runtime.step("charge", service.charge_async, 10)
        return {"log": [receipt, interrupt("ok?"), interrupt("sure?")]}

    app = compile_node(plain if kind == "plain" else coroutine, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    driver.invoke(app, Command(resume="yes"), THREAD)

    assert driver.invoke(app, Command(resume="really"), THREAD)["log"] == ["receipt 1", "yes", "really"]
    assert service.calls == [10]


def test_5_2_steps_with_one_name_are_distinguished_by_their_order(driver: Any, service: Service) -> None:
    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        receipts = [runtime.step("charge", service.charge, amount) for amount in (1, 2, 2)]
        interrupt("ok?")
        return {"log": receipts}

    app = compile_node(node, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["receipt 1", "receipt 2", "receipt 3"]
    assert service.calls == [1, 2, 2]


def charge_by_get_runtime(service: Service, runtime: Runtime[Any]) -> str:
    return get_runtime().step("charge", service.charge, 1)


def charge_by_parameter(service: Service, runtime: Runtime[Any]) -> str:
    return runtime.step("charge", service.charge, 1)


def charge_by_task(service: Service, runtime: Runtime[Any]) -> str:
    return task(service.charge, name="charge")(1).result()


@pytest.mark.parametrize("options", [{}, {"timeout": 3600}], ids=["", "timeout"])
@pytest.mark.parametrize(
    "callers", list(itertools.product([charge_by_get_runtime, charge_by_parameter, charge_by_task], repeat=3))
)
def test_5_2_steps_and_tasks_with_one_name_are_counted_together(
    driver: Any, service: Service, callers: Any, options: Any
) -> None:
    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        receipts = [caller(service, runtime) for caller in callers]
        interrupt("ok?")
        return {"log": receipts}

    app = compile_node(node, InMemorySaver(), **options)
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(resume=1), THREAD)["log"] == ["receipt 1", "receipt 2", "receipt 3"]
    assert service.calls == [1, 1, 1]


def test_5_2_a_changed_argument_is_an_error(driver: Any, service: Service) -> None:
    amounts = iter([10, 11])

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.step("charge", service.charge, next(amounts))
        return {"log": [interrupt("ok?")]}

    app = compile_node(node, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    with pytest.raises(NonDeterminismError, match="'charge'"):
        driver.invoke(app, Command(resume=1), THREAD)
    assert service.calls == [10]


@pytest.mark.parametrize("is_saved", [True, False])
def test_5_2_an_attempt_uses_the_step_results_of_the_previous_one(
    driver: Any, service: Service, is_saved: bool
) -> None:
    attempts: list[int] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        receipt = runtime.step("charge", service.charge, 10)
        attempts.append(1)
        if len(attempts) < 3:
            raise ConnectionError
        return {"log": [receipt]}

    policy = RetryPolicy(jitter=False)
    app = compile_node(node, InMemorySaver() if is_saved else None, retry_policy=policy, clock=FakeClock(jumps=True))

    assert driver.invoke(app, {"x": 1}, THREAD if is_saved else None)["log"] == ["receipt 1"]
    assert service.calls == [10]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_5_2_an_entry_is_saved_before_the_step_returns(driver: Any, service: Service, durability: str) -> None:
    saver, seen = InMemorySaver(), []

    def first(state: State) -> dict[str, Any]:
        return {"log": ["first"]}

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.step("charge", service.charge, 10)
        is_saved = saver.load("1")
        assert is_saved is not None
        seen.append([entry.value for entry in is_saved.pending.journal.values()])
        return {}

    graph = StateGraph(State).add_node(first).add_node(node).add_edge(START, "first").add_edge("first", "node")
    driver.invoke(graph.compile(saver), {"x": 1}, THREAD, durability=durability)

    assert seen == [["receipt 1"]]


def test_5_2_a_failed_step_is_repeated(driver: Any) -> None:
    calls: list[int] = []

    def fails(n: int) -> str:
        calls.append(n)
        if len(calls) == 1:
            raise KeyError("first")
        return "done"

    app = compile_node(lambda s, runtime: {"log": [runtime.step("f", fails, 1)]}, InMemorySaver())
    with pytest.raises(KeyError):
        driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, None, THREAD)["log"] == ["done"]


def test_5_2_entries_are_deleted_with_their_completed_task(driver: Any, service: Service) -> None:
    saver = InMemorySaver()
    app = compile_node(lambda s, runtime: {"log": [runtime.step("charge", service.charge, s["x"])]}, saver)

    for x in (1, 2):
        driver.invoke(app, {"x": x}, THREAD)
    assert [is_saved.pending.journal for is_saved in saver.history("1")] == [{}] * 4
    assert service.calls == [1, 2]


def test_5_2_a_fork_copies_the_entries_of_unfinished_tasks(driver: Any, service: Service) -> None:
    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"log": [runtime.step("charge", service.charge, 10), interrupt("ok?")]}

    app = compile_node(node, InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)
    app.fork(THREAD, branch="other")

    for branch in ("main", "other"):
        result = driver.invoke(app, Command(resume=branch), THREAD, branch=branch)
        assert result["log"] == ["receipt 1", branch]
    assert service.calls == [10]


def test_5_2_steps_in_subgraphs_are_journalled(driver: Any, service: Service) -> None:
    def inner(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        return {"log": [runtime.step("charge", service.charge, 10), interrupt("ok?")]}

    app = compile_node(compile_node(inner), InMemorySaver())
    driver.invoke(app, {"x": 1}, THREAD)

    assert driver.invoke(app, Command(resume="yes"), THREAD)["log"] == ["receipt 1", "yes"]
    assert service.calls == [10]


def test_5_2_the_idempotency_key_is_the_same_for_every_attempt_and_execution(driver: Any) -> None:
    keys: list[str] = []

    def node(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        keys.append(runtime.idempotency_key)
        if len(keys) == 1:
            raise ConnectionError
        return {"log": [interrupt("ok?")]}

    app = compile_node(node, InMemorySaver(), retry_policy=RetryPolicy(jitter=False), clock=FakeClock(jumps=True))
    driver.invoke(app, {"x": 1}, THREAD)
    driver.invoke(app, Command(resume=1), THREAD)

    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_5_2_arguments_without_a_fingerprint_are_refused(driver: Any) -> None:
    app = compile_node(lambda s, runtime: {"log": [runtime.step("f", len, (x for x in ()))]})

    with pytest.raises(InvalidUpdateError, match="generator"):
        driver.invoke(app, {"x": 1})


def test_a_runtime_can_be_read_after_its_task(driver: Any, service: Service) -> None:
    runtimes: list[Runtime[Any]] = []

    def first(state: State, runtime: Runtime[Any]) -> None:
        runtimes.append(runtime)

    def second(state: State) -> dict[str, Any]:
        return {"log": [runtimes[0].execution_info.node]}

    graph = StateGraph(State).add_node(first).add_node(second).add_edge(START, "first").add_edge("first", "second")
    assert driver.invoke(graph.compile(), {"x": 1})["log"] == ["first"]


def slow_saver(clock: FakeClock) -> Any:
    """Return a saver that confirms the first saved step only after its attempt has timed out."""

    class SlowSaver(InMemorySaver):
        answer: LightFuture[None] | None = None

        def save_results(self, *args: Any, **options: Any) -> Any:
            is_saved = super().save_results(*args, **options)
            if self.answer is None and args[2].journal:
                self.answer = LightFuture()
                clock.advance(61)
                return self.answer
            return is_saved

    return SlowSaver()


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_5_2_a_step_result_saved_after_its_attempt_timed_out_is_used(driver: Any, service: Service, kind: str) -> None:
    def plain(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.record("tool_called", {"attempt": runtime.execution_info.attempt})
        return {"log": [runtime.step("charge", service.charge, 10)]}

    async def coroutine(state: State, runtime: Runtime[Any]) -> dict[str, Any]:
        runtime.record("tool_called", {"attempt": runtime.execution_info.attempt})
        return {"log": [await runtime.step("charge", service.charge_async, 10)]}

    clock = FakeClock()
    saver = slow_saver(clock)
    policy = RetryPolicy(initial_interval=0, jitter=False, retry_on=NodeTimeoutError)
    app = compile_node(plain if kind == "plain" else coroutine, saver, clock=clock, timeout=60, retry_policy=policy)
    try:
        assert driver.invoke(app, {}, THREAD)["log"] == ["receipt 1"]
    finally:
        assert saver.answer is not None
        saver.answer.set_result(None)
    assert service.calls == [10]
    # The log has the records of both attempts, each once.
    recorded_attempts = [event.data["attempt"] for event in saver.events("1") if event.kind == "tool_called"]
    assert recorded_attempts == [1, 2]
