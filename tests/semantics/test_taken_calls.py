"""Part I sections 5.2 and 5.5: the next run takes over the call of a `@task` that outlives its run, with everything
that the call has started. The end of the first run does not change the result that the second run gets."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, InMemorySaver, RunControl, StateGraph, append, get_runtime, task
from statewright.errors import GraphDrained, LeaseLost, RunCancelled
from statewright.runtime.tasks import liveness
from statewright.runtime.tasks.scope import CalledTask

LONG = 600
"""Seconds after which a test that hangs fails."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


class Work:
    """Work that is still in progress when its run ends: it waits until the test lets it continue."""

    def __init__(self) -> None:
        self.began, self.go_on, self.effects = threading.Event(), threading.Event(), list[str]()

    def wait(self) -> str:
        self.began.set()
        assert self.go_on.wait(LONG)
        return "real"

    def note_effect(self) -> str:
        self.effects.append("effect")
        return "real"


def by_task(work: Work) -> Any:
    inner = task(lambda: work.wait(), name="inner")
    return lambda: inner().result()


def by_step(work: Work) -> Any:
    return lambda: get_runtime().step("s", work.wait)


def by_wait_before_step(work: Work) -> Any:
    def call() -> Any:
        work.wait()
        return get_runtime().step("s", work.note_effect)

    return call


def _waiting(work: Work) -> StateGraph:
    graph = StateGraph(State).add_node("waits", lambda state: {"log": [work.wait()]})
    graph.add_node("steps", lambda state: {"log": [get_runtime().step("s", work.note_effect)]})
    return graph.add_edge(START, "waits").add_edge("waits", "steps")


def by_graph(work: Work) -> Any:
    sub = _waiting(work).compile()
    return lambda: sub.invoke({})["log"][0]


def by_graph_that_saves_nothing(work: Work) -> Any:
    sub = _waiting(work).compile()
    graph = StateGraph(State).add_node("sub", sub, memory="none").add_edge(START, "sub").compile()
    return lambda: graph.invoke({})["log"][0]


def by_graph_of_graph(work: Work) -> Any:
    sub = StateGraph(State).add_node("sub", _waiting(work).compile()).add_edge(START, "sub").compile()
    return lambda: sub.invoke({})["log"][0]


def by_stream(work: Work) -> Any:
    sub = _waiting(work).compile()
    return lambda: list(sub.stream({}, stream_mode="values"))[-1]["log"][0]


def by_batch(work: Work) -> Any:
    sub = _waiting(work).compile()
    return lambda: sub.batch([{}])[0]["log"][0]


def by_batch_of_errors(work: Work) -> Any:
    sub = _waiting(work).compile()

    def call() -> Any:
        [result] = sub.batch([{}], return_exceptions=True)
        if isinstance(result, Exception):
            raise ValueError from result
        return result["log"][0]

    return call


CALLS = {
    "task": by_task,
    "step": by_step,
    "wait before a step": by_wait_before_step,
    "graph": by_graph,
    "graph that saves nothing": by_graph_that_saves_nothing,
    "graph of a graph": by_graph_of_graph,
    "stream": by_stream,
    "batch": by_batch,
    "batch of errors": by_batch_of_errors,
}
ENDS = ["cancelled", "failed", "released"]
REACTIONS = ["a fallback", "an error of its own", "the error"]


class OwnError(Exception):
    """Raised by a library in place of any error."""


class Case:
    """A node that waits for a call; its first run ends before the call does."""

    def __init__(self, call: str, end: str, reaction: str) -> None:
        self.work = work = Work()
        self._end, self._entered = end, list[int]()
        self.taken = threading.Event()
        """Set when the second run waits for the call."""
        perform = CALLS[call](work)

        @task
        def outer() -> Any:
            try:
                return perform()
            except Exception as error:
                if reaction == "the error":
                    raise
                if reaction == "an error of its own":
                    raise OwnError from error
                return "fallback"

        def node(state: State) -> State:
            future = outer()
            assert work.began.wait(LONG)
            self._entered.append(1)
            if len(self._entered) == 2:
                self.taken.set()
            return {"log": [future.result()]}

        def fail_once(state: State) -> State:
            assert work.began.wait(LONG)
            if end == "failed" and not self._failed.is_set():
                self._failed.set()
                raise ConnectionError("once")
            return {"log": ["beside"]}

        self._failed = threading.Event()
        graph = StateGraph(State).add_node("node", node).add_node("beside", fail_once)
        graph.add_edge(START, "node").add_edge(START, "beside")
        self.app = graph.compile(InMemorySaver(), sibling_grace=0)

    def run_first(self, driver: Any) -> threading.Thread:
        """Begin the first run and end it; return the thread that waits for it."""
        control = RunControl()

        def run() -> None:
            with pytest.raises(Exception):  # noqa: B017, PT011  # however it ends
                driver.invoke(self.app, {}, thread_id="t", control=control)

        running = threading.Thread(target=run)
        running.start()
        assert self.work.began.wait(LONG)
        while not self._entered:
            time.sleep(0.001)
        if self._end == "cancelled":
            control.request_cancel("enough")
        if self._end == "released":
            self.app.release("t")
        else:
            running.join()
        return running

    def run_second(self, driver: Any) -> threading.Thread:
        """Begin the run that continues after the first one; return its thread."""

        def run() -> None:
            self.log = driver.invoke(self.app, None, thread_id="t")["log"]

        self.log: list[Any] = []
        running = threading.Thread(target=run)
        running.start()
        return running

    def check(self) -> None:
        assert sorted(self.log) == ["beside", "real"]
        assert len(self.work.effects) <= 1
        assert self.app.get_state(thread_id="t").values["log"] == self.log


@pytest.fixture
def case_of() -> Iterator[Callable[..., Case]]:
    cases: list[Case] = []

    def make(*args: Any) -> Case:
        cases.append(Case(*args))
        return cases[-1]

    yield make
    for case in cases:
        case.work.go_on.set()


@pytest.mark.parametrize("call", ["task", "step"])
@pytest.mark.parametrize("error", [LeaseLost("another", "x", "y"), RunCancelled("x"), GraphDrained("x")])
def test_a_node_can_catch_cancellation_errors_that_a_call_raises(driver: Any, error: Any, call: str) -> None:
    def call_elsewhere() -> Any:
        raise error

    def node(state: State) -> State:
        try:
            task(call_elsewhere)().result() if call == "task" else get_runtime().step("s", call_elsewhere)
        except type(error):
            return {"log": ["fallback"]}
        raise AssertionError

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(InMemorySaver())
    assert driver.invoke(app, {}, thread_id="t")["log"] == ["fallback"]


@pytest.mark.parametrize("reaction", REACTIONS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("call", list(CALLS))
def test_the_next_run_gets_the_result_of_a_call_that_it_has_taken_over(
    driver: Any, case_of: Any, call: str, end: str, reaction: str
) -> None:
    case = case_of(call, end, reaction)
    first = case.run_first(driver)
    second = case.run_second(driver)
    assert case.taken.wait(LONG)
    case.work.go_on.set()
    second.join()
    first.join()
    case.check()


@pytest.mark.parametrize("reaction", REACTIONS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("call", list(CALLS))
def test_a_call_taken_over_while_its_run_ends_returns_no_fallback(
    driver: Any, case_of: Any, call: str, end: str, reaction: str, monkeypatch: Any
) -> None:
    case = case_of(call, end, reaction)
    original = liveness.note_refusal

    def note_late(scope: Any, *args: Any) -> None:
        if isinstance(scope.task, CalledTask):
            assert case.taken.wait(LONG)
        original(scope, *args)

    for name, module in list(sys.modules.items()):
        if name.startswith("statewright.runtime.") and getattr(module, "note_refusal", None) is original:
            monkeypatch.setattr(module, "note_refusal", note_late)
    first = case.run_first(driver)
    case.work.go_on.set()
    second = case.run_second(driver)
    second.join()
    first.join()
    case.check()
