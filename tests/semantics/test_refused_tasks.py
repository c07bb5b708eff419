"""Part I section 5.5: a task that receives the error that its run is over has no result, even if its node catches it.

Nodes catch exceptions: they return a fallback, or raise an error of their own. When what they caught says that the run
was cancelled or drained, neither is kept, handled, tried again or counted, and the next run executes the task again.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import (
    START,
    CircuitBreaker,
    InMemorySaver,
    NodeError,
    RetryPolicy,
    RunControl,
    Runtime,
    StateGraph,
    get_runtime,
    interrupt,
    task,
)
from statewright.errors import GraphDrained, RunCancelled
from statewright.runtime.tasks.task_future import TaskFuture

LONG = 600
"""Seconds after which a test that hangs fails."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class OwnError(Exception):
    """What a library raises in place of any error."""


class Place:
    """Where the node waits when its run is stopped."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def wait(self) -> str:
        self.began.set()
        assert self.go_on.wait(LONG)
        return "real"

    def after_begin(self, future: TaskFuture[Any]) -> TaskFuture[Any]:
        """The future of a call, once another thread is at work on it."""
        assert self.began.wait(LONG)
        return future


@pytest.fixture
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.go_on.set()


def by_result(place: Place) -> Any:
    fetch = task(lambda: place.wait())
    return lambda: place.after_begin(fetch()).result()


def by_exception(place: Place) -> Any:
    fetch = task(lambda: place.wait())

    def call() -> Any:
        future = place.after_begin(fetch())
        error = future.exception()
        if error is not None:
            raise OwnError from error
        return future.result()

    return call


def by_task_of_task(place: Place) -> Any:
    """A task whose function catches the error and answers in place of the other one."""
    inner = task(lambda: place.wait())

    @task
    def outer() -> Any:
        try:
            return place.after_begin(inner()).result()
        except Exception:
            return "fallback of the task"

    return lambda: place.after_begin(outer()).result()


def by_step(place: Place) -> Any:
    def call() -> Any:
        place.wait()
        return get_runtime().step("s", lambda: "real")

    return call


def by_graph(place: Place) -> Any:
    sub = _waiting(place).compile()
    return lambda: sub.invoke({})["log"][0]


def by_graph_of_graph(place: Place) -> Any:
    inner = _waiting(place).compile()

    def calls(state: State) -> State:
        try:
            return {"log": inner.invoke({})["log"]}
        except Exception:
            return {"log": ["fallback of the graph"]}

    sub = StateGraph(State).add_node(calls).add_edge(START, "calls").compile()
    return lambda: sub.invoke({})["log"][0]


def by_stream(place: Place) -> Any:
    sub = _waiting(place).compile()
    return lambda: list(sub.stream({}, stream_mode="values"))[-1]["log"][0]


def by_batch(place: Place) -> Any:
    sub = _waiting(place).compile()

    def call() -> Any:
        [found] = sub.batch([{}], return_exceptions=True)
        if isinstance(found, Exception):
            raise OwnError from found
        return found["log"][0]

    return call


def by_question(place: Place) -> Any:
    """One that asks a person instead."""
    call = by_step(place)

    def asks() -> Any:
        try:
            return call()
        except Exception:
            return interrupt("What instead?")

    return asks


def nothing(state: State) -> State:
    return {}


def _waiting(place: Place) -> StateGraph:
    """A graph that cannot end once its run is stopped: it would need another superstep."""
    graph = (
        StateGraph(State).add_node("waits", lambda state: {"log": [place.wait()]}).add_node("more", lambda state: {})
    )
    return graph.add_edge(START, "waits").add_edge("waits", "more")


WAYS = {
    "result": by_result,
    "exception": by_exception,
    "task of a task": by_task_of_task,
    "step": by_step,
    "graph": by_graph,
    "graph of a graph": by_graph_of_graph,
    "stream": by_stream,
    "batch": by_batch,
    "question": by_question,
}


def _handle(state: State, error: NodeError) -> State:
    return {"log": ["handled"]}


POLICIES: dict[str, Callable[[], dict[str, Any]]] = {
    "no policy": dict,
    "retries": lambda: {"retry_policy": RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=Exception)},
    "timeout": lambda: {"timeout": LONG},
    "handler": lambda: {"error_handler": _handle},
    "circuit": lambda: {"circuit_breaker": CircuitBreaker(failure_threshold=1, reset_after=LONG)},
}


def after(state: State) -> State:
    return {"log": ["after"]}


def another(state: State) -> State:
    return {"log": ["beside"]}


class Case:
    """A graph in whose node something is waited for, and what the node makes of an error."""

    def __init__(self, call: Callable[[], Any], answers: str, policy: str, *, beside: bool = False) -> None:
        def node(state: State) -> State:
            try:
                return {"log": [call()]}
            except Exception as error:
                if answers == "an error of its own":
                    raise OwnError("it did not work") from error
                return {"log": ["fallback"]}

        graph = StateGraph(State).add_node("n", node, **POLICIES[policy]())
        graph.add_node(after).add_edge(START, "n").add_edge("n", "after")
        if beside:
            graph.add_node("beside", another).add_edge(START, "beside")
        self.app = graph.compile(InMemorySaver())

    def run_and_stop(
        self, driver: Any, place: Place, stop: Callable[[RunControl], object], *, waits_for_call: bool = False
    ) -> BaseException | None:
        """Run until the node waits, and stop the run; what it raised. Whoever waits for a call must not get its result
        first."""
        control = RunControl()

        def stop_it() -> None:
            assert place.began.wait(LONG)
            stop(control)
            if not waits_for_call:
                place.go_on.set()

        stopping = threading.Thread(target=stop_it)
        stopping.start()
        try:
            driver.invoke(self.app, {}, thread_id="t", control=control)
        except Exception as error:
            return error
        finally:
            stopping.join()
            place.go_on.set()
        return None


@pytest.mark.parametrize("answers", ["a fallback", "an error of its own"])
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
def test_5_5_the_result_of_a_node_that_caught_a_cancellation_is_dropped(
    driver: Any, place: Place, way: str, policy: str, answers: str, beside: bool
) -> None:
    case = Case(WAYS[way](place), answers, policy, beside=beside)
    waits_for_call = way in ("result", "exception", "task of a task")
    stop = operator.methodcaller("request_cancel", "enough")
    error = case.run_and_stop(driver, place, stop, waits_for_call=waits_for_call)
    assert isinstance(error, RunCancelled)
    assert error.reason.startswith("enough")
    state = case.app.get_state(thread_id="t")
    assert "n" in state.next
    assert state.interrupts == ()
    assert not {"fallback", "handled", "fallback of the task"}.intersection(state.values.get("log", ()))
    log = driver.invoke(case.app, None, thread_id="t")["log"]
    assert sorted(log) == sorted(["real", "after", *(["beside"] if beside else [])])


@pytest.mark.parametrize("way", ["graph", "graph of a graph", "stream", "batch"])
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("answers", ["a fallback", "an error of its own"])
def test_5_5_the_result_of_a_node_that_caught_a_drain_is_dropped(
    driver: Any, place: Place, way: str, policy: str, answers: str
) -> None:
    case = Case(WAYS[way](place), answers, policy)
    error = case.run_and_stop(driver, place, operator.methodcaller("request_drain", "enough"))
    assert isinstance(error, GraphDrained)
    assert case.app.get_state(thread_id="t").next == ("n",)
    assert driver.invoke(case.app, None, thread_id="t")["log"] == ["real", "after"]


def test_5_5_a_graph_that_the_node_cancels_itself_is_its_own_business(driver: Any) -> None:
    def ends(state: State, runtime: Runtime[Any]) -> State:
        own.request_cancel("not needed")
        return {"log": ["unused"]}

    own = RunControl()
    sub = StateGraph(State).add_node(ends).add_node("more", nothing).add_edge(START, "ends")
    app_of_sub = sub.add_edge("ends", "more").compile()

    def node(state: State) -> State:
        try:
            app_of_sub.invoke({}, control=own)
        except RunCancelled:
            return {"log": ["fallback"]}
        raise AssertionError("it was not cancelled")

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(InMemorySaver())
    assert driver.invoke(app, {}, thread_id="t")["log"] == ["fallback"]
