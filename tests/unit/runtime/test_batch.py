"""Batches: results in order, concurrent runs, errors and configs."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from typing import Any

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.errors import InvalidConfig, InvalidUpdateError, NodeFailed
from statewright.runtime.methods.batch import arun_concurrently, config_at, run_concurrently

TIMEOUT = 600.0
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")


def app(function: Any = None, **options: Any) -> Any:
    graph = StateGraph({"n": int}).add_node("a", function or (lambda state: {"n": 10 // state["n"]}))
    return graph.add_edge(START, "a").compile(**options)


def batch(graph: Any, caller: str, *args: Any, **options: Any) -> list[Any]:
    return graph.batch(*args, **options) if caller == "sync" else asyncio.run(graph.abatch(*args, **options))


@pytest.fixture(params=["sync", "async"])
def caller(request: pytest.FixtureRequest) -> str:
    return request.param


def test_results_are_in_the_order_of_the_inputs(caller: str) -> None:
    inputs = [{"n": n} for n in (1, 2, 5, 10)]
    assert batch(app(), caller, inputs) == [{"n": 10}, {"n": 5}, {"n": 2}, {"n": 1}]


def test_a_batch_without_inputs_returns_no_results(caller: str) -> None:
    assert batch(app(), caller, []) == []


def test_a_batch_raises_the_first_error(caller: str) -> None:
    with pytest.raises(ZeroDivisionError):
        batch(app(), caller, [{"n": 1}, {"n": 0}])


def test_return_exceptions_returns_errors_in_the_order_of_the_inputs(caller: str) -> None:
    results = batch(app(), caller, [{"n": 1}, {"n": 0}, 5, {"n": 2}], return_exceptions=True)
    assert (results[0], results[3]) == ({"n": 10}, {"n": 5})
    assert isinstance(results[1], NodeFailed)
    assert (results[1].node, results[1].step, type(results[1].error)) == ("a", 1, ZeroDivisionError)
    assert isinstance(results[2], InvalidUpdateError)


def test_runs_of_a_batch_are_concurrent(caller: str) -> None:
    barrier = threading.Barrier(4)

    def node(state: Any) -> dict[str, Any]:
        barrier.wait(TIMEOUT)
        return {"n": state["n"]}

    assert batch(app(node), caller, [{"n": n} for n in range(4)]) == [{"n": n} for n in range(4)]


def test_max_concurrency_limits_the_concurrent_runs(caller: str) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def node(state: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.001)
        with lock:
            running -= 1

    batch(app(node), caller, [{"n": n} for n in range(10)], max_concurrency=2)
    assert 1 <= most <= 2


def test_an_error_starts_no_further_run_and_waits_for_the_running_ones() -> None:
    started: list[int] = []
    ended: list[int] = []
    failed = threading.Event()

    def run_one(index: int) -> None:
        started.append(index)
        if index == 1:
            failed.set()
            raise ValueError("bad")
        assert failed.wait(TIMEOUT)
        threading.Event().wait(0.05)
        ended.append(index)

    with pytest.raises(ValueError, match="bad"):
        run_concurrently(run_one, 100, 2)
    assert len(started) < 100
    assert sorted(ended) == [index for index in sorted(started) if index != 1]


def test_a_keyboard_interrupt_ends_the_batch_at_once() -> None:
    started: list[int] = []
    proceed, caller = threading.Event(), threading.get_ident()

    def run_one(index: int) -> None:
        started.append(index)
        if len(started) == 2:
            signal.pthread_kill(caller, signal.SIGINT)
        assert proceed.wait(TIMEOUT)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_concurrently(run_one, 100, 2)
        assert len(started) == 2
    finally:
        proceed.set()


def test_each_input_can_have_its_own_config(caller: str) -> None:
    graph = app(checkpointer=InMemorySaver())
    batch(graph, caller, [{"n": 1}, {"n": 2}], [{"configurable": {"thread_id": thread_id}} for thread_id in "ab"])
    assert [graph.get_state(thread_id=thread_id).values for thread_id in "ab"] == [{"n": 10}, {"n": 5}]


def test_a_wrong_number_of_configs_is_refused(caller: str) -> None:
    with pytest.raises(InvalidConfig, match="2 inputs and 3 configs"):
        batch(app(), caller, [{"n": 1}, {"n": 2}], [{}, {}, {}])


@pytest.mark.parametrize(
    ("config", "expected"),
    [(None, None), ({"tags": ["x"]}, {"tags": ["x"]}), ([{"run_id": "1"}, {"run_id": "2"}], {"run_id": "2"})],
)
def test_config_at_returns_the_config_of_one_input(config: Any, expected: Any) -> None:
    assert config_at(config, 1, 2) == expected


def test_runs_in_threads_get_copies_of_the_callers_context() -> None:
    def run_one(index: int) -> str:
        seen = CURRENT.get()
        CURRENT.set(f"run {index}")
        return seen

    def run() -> tuple[list[str], str]:
        CURRENT.set("the caller")
        return run_concurrently(run_one, 3, 1), CURRENT.get()

    assert contextvars.copy_context().run(run) == (["the caller"] * 3, "the caller")


def test_an_error_cancels_the_other_coroutines_and_waits_for_their_cleanup() -> None:
    cleaned: list[int] = []

    async def run_one(index: int) -> None:
        if index == 0:
            await asyncio.sleep(0)
            raise LookupError("no luck")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(index)

    with pytest.raises(LookupError, match="no luck"):
        asyncio.run(arun_concurrently(run_one, 3, None))
    assert sorted(cleaned) == [1, 2]


def test_waiting_runs_of_a_batch_return_their_questions(caller: str) -> None:
    from statewright import interrupt

    graph = app(lambda state: {"n": interrupt(state["n"])}, checkpointer=InMemorySaver())
    configs = [{"configurable": {"thread_id": thread_id}} for thread_id in "ab"]
    results = batch(graph, caller, [{"n": 1}, {"n": 2}], configs, return_exceptions=True)
    assert [[question.value for question in result["__interrupt__"]] for result in results] == [[1], [2]]


def test_a_batch_with_a_checkpointer_needs_thread_ids(caller: str) -> None:
    graph = app(checkpointer=InMemorySaver())
    with pytest.raises(InvalidConfig, match="thread_id"):
        batch(graph, caller, [{"n": 1}])
