"""Durability `exit` and subgraphs: what a call saves is found again, and what it need not save it does not."""

import operator
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Runtime, StateGraph, interrupt
from statewright.channels import append

THREAD = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], append]
    visits: Annotated[int, operator.add]
    seen: int


class Counting(InMemorySaver):
    """Counts the commits to each namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.namespaces_written: list[str] = []

    def commit(self, commit: Any, **options: Any) -> Any:
        self.namespaces_written.append(commit.line.namespace.partition(":")[0])
        return super().commit(commit, **options)


def calling(inner: StateGraph, after: Any = lambda state: None, memory: Any = "call") -> StateGraph:
    """`before`, then a subgraph, then `after`."""
    graph = StateGraph(State).add_node("before", lambda state: {"log": ["before"]})
    graph.add_node("sub", inner.compile(), memory=memory).add_node("after", after)
    return graph.add_edge(START, "before").add_edge("before", "sub").add_edge("sub", "after").add_edge("after", END)


def paying(paid: list[str], last: Any = lambda state: {"log": ["last"]}) -> StateGraph:
    """A subgraph that does a step, and then something else."""

    def pay(state: State, runtime: Runtime) -> dict[str, Any]:
        runtime.step("pay", paid.append, "paid")
        return {"log": ["pay"]}

    graph = StateGraph(State).add_node("pay", pay).add_node("last", last)
    return graph.add_edge(START, "pay").add_edge("pay", "last").add_edge("last", END)


class Crash(BaseException):
    """Ends a run as the end of its process does: nothing more is saved."""


def crashing(crashes: list[bool]) -> Any:
    def node(state: State) -> dict[str, Any]:
        if crashes.pop():
            raise Crash
        return {"log": ["end"]}

    return node


def test_a_call_that_completes_saves_nothing_of_its_own(driver: Any) -> None:
    saver = Counting()
    inner = StateGraph(State).add_node("in", lambda state: {"log": ["in"]}).add_edge(START, "in")
    app = calling(inner, lambda state: {"log": ["end"]}).compile(saver)
    assert driver.invoke(app, {}, THREAD, durability="exit")["log"] == ["before", "in", "end"]
    assert saver.namespaces_written == ["", ""]  # the input, and the end


def test_a_step_in_a_call_is_done_once_though_the_run_was_lost(driver: Any) -> None:
    paid: list[str] = []
    app = calling(paying(paid, crashing([False, True]))).compile(InMemorySaver())
    with pytest.raises(Crash):
        driver.invoke(app, {}, THREAD, durability="exit")
    result = _next(driver, app)
    assert result["log"] == ["before", "pay", "end"]
    assert paid == ["paid"]


def test_a_call_that_asks_goes_on_where_it_was(driver: Any) -> None:
    paid: list[str] = []
    app = calling(paying(paid, lambda state: {"log": [interrupt("how?")]})).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD, durability="exit")
    result = driver.invoke(app, Command(resume="so"), THREAD, durability="exit")
    assert result["log"] == ["before", "pay", "so"]
    assert paid == ["paid"]


def test_what_a_call_remembers_across_runs_counts_once_though_its_run_was_lost(driver: Any) -> None:
    inner = StateGraph(State).add_node("count", lambda state: {"visits": 1})
    inner.add_node("show", lambda state: {"seen": state["visits"]})
    inner.add_edge(START, "count").add_edge("count", "show")
    app = calling(inner, crashing([False, True]), "thread").compile(InMemorySaver())
    with pytest.raises(Crash):
        driver.invoke(app, {}, THREAD, durability="exit")
    assert _next(driver, app)["seen"] == 1


def test_a_run_keeps_back_what_no_call_needs() -> None:
    saver = Counting()
    inner = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = calling(inner).compile(saver)
    app.invoke({}, THREAD, durability="exit")
    assert saver.namespaces_written == ["", "", "sub"]  # the caller where it waits, before the call that it waits for


def _next(driver: Any, app: Any) -> Any:
    """What comes of going on: whoever crashed has let go of the thread by now."""
    lease = app.checkpointer.lease("t")
    if lease is not None:
        app.checkpointer._threads["t"].hold = None
    return driver.invoke(app, None, THREAD, durability="exit")
