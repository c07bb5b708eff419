"""Many inputs at once: results in order, each run beside the others."""

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

LONG = 600.0
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def app(function: Any = None, **options: Any) -> Any:
    built = StateGraph({"n": int}).add_node("a", function or (lambda state: {"n": 10 // state["n"]}))
    return built.add_edge(START, "a").compile(**options)


def batch(graph: Any, colour: str, *args: Any, **options: Any) -> list[Any]:
    return graph.batch(*args, **options) if colour == "sync" else asyncio.run(graph.abatch(*args, **options))


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


def test_results_are_in_the_order_of_the_inputs(colour: str) -> None:
    inputs = [{"n": n} for n in (1, 2, 5, 10)]
    assert batch(app(), colour, inputs) == [{"n": 10}, {"n": 5}, {"n": 2}, {"n": 1}]


def test_no_inputs_have_no_results(colour: str) -> None:
    assert batch(app(), colour, []) == []


def test_the_first_error_is_raised(colour: str) -> None:
    with pytest.raises(ZeroDivisionError):
        batch(app(), colour, [{"n": 1}, {"n": 0}])


def test_errors_stand_in_place_of_results_if_asked_for(colour: str) -> None:
    found = batch(app(), colour, [{"n": 1}, {"n": 0}, 5, {"n": 2}], return_exceptions=True)
    assert (found[0], found[3]) == ({"n": 10}, {"n": 5})
    assert isinstance(found[1], NodeFailed)
    assert (found[1].node, found[1].step, type(found[1].error)) == ("a", 1, ZeroDivisionError)
    assert isinstance(found[2], InvalidUpdateError)


def test_runs_are_beside_each_other(colour: str) -> None:
    together = threading.Barrier(4)

    def node(state: Any) -> dict[str, Any]:
        together.wait(LONG)
        return {"n": state["n"]}

    assert batch(app(node), colour, [{"n": n} for n in range(4)]) == [{"n": n} for n in range(4)]


def test_never_more_runs_are_in_flight_than_may_be(colour: str) -> None:
    lock, flying, most = threading.Lock(), 0, 0

    def node(state: Any) -> None:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        threading.Event().wait(0.001)
        with lock:
            flying -= 1

    batch(app(node), colour, [{"n": n} for n in range(10)], max_concurrency=2)
    assert 1 <= most <= 2


def test_after_an_error_no_other_run_begins_and_those_under_way_are_waited_for() -> None:
    begun: list[int] = []
    ended: list[int] = []
    failed = threading.Event()

    def run_one(place: int) -> None:
        begun.append(place)
        if place == 1:
            failed.set()
            raise ValueError("bad")
        assert failed.wait(LONG)
        threading.Event().wait(0.05)
        ended.append(place)

    with pytest.raises(ValueError, match="bad"):
        run_concurrently(run_one, 100, 2)
    assert len(begun) < 100
    assert sorted(ended) == [place for place in sorted(begun) if place != 1]


def test_an_interruption_leaves_the_batch_at_once() -> None:
    begun: list[int] = []
    go_on, caller = threading.Event(), threading.get_ident()

    def run_one(place: int) -> None:
        begun.append(place)
        if len(begun) == 2:
            signal.pthread_kill(caller, signal.SIGINT)
        assert go_on.wait(LONG)

    try:
        with pytest.raises(KeyboardInterrupt):
            run_concurrently(run_one, 100, 2)
        assert len(begun) == 2
    finally:
        go_on.set()


def test_each_input_may_have_a_config_of_its_own(colour: str) -> None:
    graph = app(checkpointer=InMemorySaver())
    batch(graph, colour, [{"n": 1}, {"n": 2}], [{"configurable": {"thread_id": one}} for one in "ab"])
    assert [graph.get_state(thread_id=one).values for one in "ab"] == [{"n": 10}, {"n": 5}]


def test_there_is_a_config_for_each_input_or_one_for_all(colour: str) -> None:
    with pytest.raises(InvalidConfig, match="2 inputs and 3 configs"):
        batch(app(), colour, [{"n": 1}, {"n": 2}], [{}, {}, {}])


@pytest.mark.parametrize(
    ("config", "found"),
    [(None, None), ({"tags": ["x"]}, {"tags": ["x"]}), ([{"run_id": "1"}, {"run_id": "2"}], {"run_id": "2"})],
)
def test_the_config_at_a_place(config: Any, found: Any) -> None:
    assert config_at(config, 1, 2) == found


def test_threads_run_in_copies_of_the_context_of_the_caller() -> None:
    def run_one(place: int) -> str:
        seen = WHO.get()
        WHO.set(f"run {place}")
        return seen

    def run() -> tuple[list[str], str]:
        WHO.set("the caller")
        return run_concurrently(run_one, 3, 1), WHO.get()

    assert contextvars.copy_context().run(run) == (["the caller"] * 3, "the caller")


def test_an_error_cancels_the_coroutines_beside_it_and_waits_for_their_cleaning_up() -> None:
    cleaned: list[int] = []

    async def run_one(place: int) -> None:
        if place == 0:
            await asyncio.sleep(0)
            raise LookupError("no luck")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(place)

    with pytest.raises(LookupError, match="no luck"):
        asyncio.run(arun_concurrently(run_one, 3, None))
    assert sorted(cleaned) == [1, 2]


def test_runs_that_wait_for_an_answer_give_their_questions(colour: str) -> None:
    from statewright import interrupt

    graph = app(lambda state: {"n": interrupt(state["n"])}, checkpointer=InMemorySaver())
    configs = [{"configurable": {"thread_id": one}} for one in "ab"]
    found = batch(graph, colour, [{"n": 1}, {"n": 2}], configs, return_exceptions=True)
    assert [[one.value for one in result["__interrupt__"]] for result in found] == [[1], [2]]


def test_every_input_needs_a_thread_of_its_own_to_be_kept(colour: str) -> None:
    graph = app(checkpointer=InMemorySaver())
    with pytest.raises(InvalidConfig, match="thread_id"):
        batch(graph, colour, [{"n": 1}])
