"""Part I section 5.5: a task that is told that its run has ended has no result, even if its node catches the error.

Nodes catch exceptions: they return a fallback, or raise another error. If the caught error says that the run was
cancelled or drained, neither is saved, handled, retried or counted, and the next run executes the task again.
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
    """Raised by a library in place of any error."""


class WaitingPoint:
    """The point where the node waits when its run is stopped."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def wait(self) -> str:
        self.began.set()
        assert self.go_on.wait(LONG)
        return "real"

    def when_begun(self, future: TaskFuture[Any]) -> TaskFuture[Any]:
        """Return the future of a call, once another thread executes it."""
        assert self.began.wait(LONG)
        return future


@pytest.fixture
def point() -> Iterator[WaitingPoint]:
    point = WaitingPoint()
    yield point
    point.go_on.set()


def by_result(point: WaitingPoint) -> Any:
    fetch = task(lambda: point.wait())
    return lambda: point.when_begun(fetch()).result()


def by_exception(point: WaitingPoint) -> Any:
    fetch = task(lambda: point.wait())

    def call() -> Any:
        future = point.when_begun(fetch())
        error = future.exception()
        if error is not None:
            raise OwnError from error
        return future.result()

    return call


def by_task_of_task(point: WaitingPoint) -> Any:
    """A task that catches the error of an inner task and returns a fallback."""
    inner = task(lambda: point.wait())

    @task
    def outer() -> Any:
        try:
            return point.when_begun(inner()).result()
        except Exception:
            return "fallback of the task"

    return lambda: point.when_begun(outer()).result()


def by_step(point: WaitingPoint) -> Any:
    def call() -> Any:
        point.wait()
        return get_runtime().step("s", lambda: "real")

    return call


def by_graph(point: WaitingPoint) -> Any:
    sub = waiting_graph(point).compile()
    return lambda: sub.invoke({})["log"][0]


def by_graph_of_graph(point: WaitingPoint) -> Any:
    inner = waiting_graph(point).compile()

    def calls(state: State) -> State:
        try:
            return {"log": inner.invoke({})["log"]}
        except Exception:
            return {"log": ["fallback of the graph"]}

    sub = StateGraph(State).add_node(calls).add_edge(START, "calls").compile()
    return lambda: sub.invoke({})["log"][0]


def by_stream(point: WaitingPoint) -> Any:
    sub = waiting_graph(point).compile()
    return lambda: list(sub.stream({}, stream_mode="values"))[-1]["log"][0]


def by_batch(point: WaitingPoint) -> Any:
    sub = waiting_graph(point).compile()

    def call() -> Any:
        [result] = sub.batch([{}], return_exceptions=True)
        if isinstance(result, Exception):
            raise OwnError from result
        return result["log"][0]

    return call


def by_question(point: WaitingPoint) -> Any:
    """A step whose error is replaced by a question."""
    call = by_step(point)

    def asks() -> Any:
        try:
            return call()
        except Exception:
            return interrupt("What instead?")

    return asks


def do_nothing(state: State) -> State:
    return {}


def waiting_graph(point: WaitingPoint) -> StateGraph:
    """A graph that cannot end once its run is stopped: it would need another superstep."""
    graph = (
        StateGraph(State).add_node("waits", lambda state: {"log": [point.wait()]}).add_node("more", lambda state: {})
    )
    return graph.add_edge(START, "waits").add_edge("waits", "more")


CALLERS = {
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


def sibling(state: State) -> State:
    return {"log": ["sibling"]}


class Case:
    """A graph whose node waits for a call, and replaces its error by a fallback or another error."""

    def __init__(self, call: Callable[[], Any], reaction: str, policy: str, *, has_sibling: bool = False) -> None:
        def node(state: State) -> State:
            try:
                return {"log": [call()]}
            except Exception as error:
                if reaction == "another error":
                    raise OwnError("it did not work") from error
                return {"log": ["fallback"]}

        graph = StateGraph(State).add_node("n", node, **POLICIES[policy]())
        graph.add_node(after).add_edge(START, "n").add_edge("n", "after")
        if has_sibling:
            graph.add_node("sibling", sibling).add_edge(START, "sibling")
        self.app = graph.compile(InMemorySaver())

    def run_and_stop(
        self, driver: Any, point: WaitingPoint, stop: Callable[[RunControl], object], *, waits_for_call: bool = False
    ) -> BaseException | None:
        """Stop the run while the node waits, and return its error.

        With `waits_for_call`, the call completes only after the run has ended.
        """
        control = RunControl()

        def stop_when_waiting() -> None:
            assert point.began.wait(LONG)
            stop(control)
            if not waits_for_call:
                point.go_on.set()

        stopper = threading.Thread(target=stop_when_waiting)
        stopper.start()
        try:
            driver.invoke(self.app, {}, thread_id="t", control=control)
        except Exception as error:
            return error
        finally:
            stopper.join()
            point.go_on.set()
        return None


@pytest.mark.parametrize("reaction", ["a fallback", "another error"])
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("caller", list(CALLERS))
@pytest.mark.parametrize("has_sibling", [False, True], ids=["alone", "with a sibling"])
@pytest.mark.sampled(5)
def test_5_5_the_result_of_a_node_that_caught_a_cancellation_is_dropped(
    driver: Any, point: WaitingPoint, caller: str, policy: str, reaction: str, has_sibling: bool
) -> None:
    case = Case(CALLERS[caller](point), reaction, policy, has_sibling=has_sibling)
    waits_for_call = caller in ("result", "exception", "task of a task")
    stop = operator.methodcaller("request_cancel", "enough")
    error = case.run_and_stop(driver, point, stop, waits_for_call=waits_for_call)
    assert isinstance(error, RunCancelled)
    assert error.reason.startswith("enough")
    state = case.app.get_state(thread_id="t")
    assert "n" in state.next
    assert state.interrupts == ()
    assert not {"fallback", "handled", "fallback of the task"}.intersection(state.values.get("log", ()))
    log = driver.invoke(case.app, None, thread_id="t")["log"]
    assert sorted(log) == sorted(["real", "after", *(["sibling"] if has_sibling else [])])


@pytest.mark.parametrize("caller", ["graph", "graph of a graph", "stream", "batch"])
@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("reaction", ["a fallback", "another error"])
def test_5_5_the_result_of_a_node_that_caught_a_drain_is_dropped(
    driver: Any, point: WaitingPoint, caller: str, policy: str, reaction: str
) -> None:
    case = Case(CALLERS[caller](point), reaction, policy)
    error = case.run_and_stop(driver, point, operator.methodcaller("request_drain", "enough"))
    assert isinstance(error, GraphDrained)
    assert case.app.get_state(thread_id="t").next == ("n",)
    assert driver.invoke(case.app, None, thread_id="t")["log"] == ["real", "after"]


def test_5_5_a_node_may_catch_its_own_cancellation_of_a_subgraph(driver: Any) -> None:
    def ends(state: State, runtime: Runtime[Any]) -> State:
        own.request_cancel("not needed")
        return {"log": ["unused"]}

    own = RunControl()
    sub = StateGraph(State).add_node(ends).add_node("more", do_nothing).add_edge(START, "ends")
    app_of_sub = sub.add_edge("ends", "more").compile()

    def node(state: State) -> State:
        try:
            app_of_sub.invoke({}, control=own)
        except RunCancelled:
            return {"log": ["fallback"]}
        raise AssertionError("The graph was not cancelled.")

    app = StateGraph(State).add_node(node).add_edge(START, "node").compile(InMemorySaver())
    assert driver.invoke(app, {}, thread_id="t")["log"] == ["fallback"]
