"""Durability `exit` and subgraphs: which state of a call is saved, and which is not."""

import operator
from pathlib import Path
from threading import Event, Lock
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, RetryPolicy, Runtime, StateGraph, interrupt
from statewright.channels import append
from statewright.errors import NodeTimeoutError, SerdeError
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

THREAD = {"configurable": {"thread_id": "t"}}
LONG = 600


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
        self.namespaces_written.append(commit.branch_key.namespace.partition(":")[0])
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


def test_a_call_that_asks_continues_where_it_was(driver: Any) -> None:
    paid: list[str] = []
    app = calling(paying(paid, lambda state: {"log": [interrupt("how?")]})).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD, durability="exit")
    result = driver.invoke(app, Command(resume="so"), THREAD, durability="exit")
    assert result["log"] == ["before", "pay", "so"]
    assert paid == ["paid"]


def test_the_memory_of_a_call_across_runs_counts_once_although_its_run_was_lost(driver: Any) -> None:
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


# -- a call that has ended does not run again, whatever becomes of the task that made it


def counting(ran: list[str], depth: int = 1) -> Any:
    """A subgraph of two supersteps that notes its nodes as they run; deeper, its second node calls such a one."""

    def one(state: State) -> dict[str, Any]:
        ran.append(f"one {depth}")
        return {"log": ["one"]}

    def two(state: State) -> dict[str, Any]:
        ran.append(f"two {depth}")
        return {"log": ["two"]} if depth == 1 else {"log": counting(ran, depth - 1).invoke({})["log"]}

    return StateGraph(State).add_sequence([one, two]).add_edge(START, "one").compile()


FORMS: dict[str, Any] = {
    "invoke": lambda inner: inner.invoke({})["log"],
    "stream": lambda inner: list(inner.stream({}, stream_mode="values"))[-1]["log"],
    "batch": lambda inner: inner.batch([{}, {}])[0]["log"],
    "keyed": lambda inner: inner.invoke({}, call_key="mine")["log"],
    "thread": lambda inner: inner.invoke({}, memory="thread")["log"],
}


@pytest.mark.parametrize("form", [*FORMS, "ainvoke"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_call_that_has_ended_does_not_run_again_though_its_node_asks(
    driver: Any, saver: Any, durability: str, depth: int, form: str
) -> None:
    ran: list[str] = []
    inner = counting(ran, depth)

    def calling_it(state: State) -> dict[str, Any]:
        return {"log": [*FORMS[form](inner), interrupt("first"), interrupt("second")]}

    async def awaiting(state: State) -> dict[str, Any]:
        result = await inner.ainvoke({})
        return {"log": [*result["log"], interrupt("first"), interrupt("second")]}

    node = awaiting if form == "ainvoke" else calling_it
    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver)
    driver.invoke(app, {}, THREAD, durability=durability)
    ran_once = list(ran)
    driver.invoke(app, Command(resume="a"), THREAD, durability=durability)
    result = driver.invoke(app, Command(resume="b"), THREAD, durability=durability)

    assert result["log"] == [*["one"] * depth, "two", "a", "b"]
    assert ran == ran_once
    if form != "thread":
        assert list(saver.namespaces("t")) == [""], "calls go with the task that made them"


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_subgraph_that_has_ended_does_not_run_again_though_the_way_on_asks(
    driver: Any, saver: Any, durability: str
) -> None:
    ran: list[str] = []
    graph = StateGraph(State).add_node("sub", counting(ran)).add_edge(START, "sub")
    graph.add_node("end", lambda state: {"log": ["end"]})
    app = graph.add_conditional_edges("sub", lambda state: interrupt("where?"), ["end", END]).compile(saver)
    driver.invoke(app, {}, THREAD, durability=durability)
    assert driver.invoke(app, Command(resume="end"), THREAD, durability=durability)["log"] == ["one", "two", "end"]
    assert ran == ["one 1", "two 1"]


@pytest.mark.parametrize("tries_again", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_call_that_has_ended_does_not_run_again_though_its_node_fails(
    driver: Any, saver: Any, durability: str, depth: int, tries_again: bool
) -> None:
    ran: list[str] = []
    fails = [True]
    inner = counting(ran, depth)

    def node(state: State) -> dict[str, Any]:
        log = inner.invoke({})["log"]
        if fails:
            fails.pop()
            raise ConnectionError("gone")
        return {"log": log}

    retries = RetryPolicy(initial_interval=0.0, jitter=False) if tries_again else None
    graph = StateGraph(State).add_node("node", node, retry_policy=retries).add_edge(START, "node")
    app = graph.compile(saver)
    if not tries_again:
        with pytest.raises(ConnectionError):
            driver.invoke(app, {}, THREAD, durability=durability)
    result = driver.invoke(app, {} if tries_again else None, THREAD, durability=durability)

    assert result["log"] == [*["one"] * depth, "two"]
    assert sorted(ran) == sorted(f"{name} {level + 1}" for name in ("one", "two") for level in range(depth))
    assert list(saver.namespaces("t")) == [""]


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_call_that_has_ended_does_not_run_again_though_its_node_is_abandoned(
    driver: Any, saver: Any, durability: str
) -> None:
    ran: list[str] = []
    clock, is_tried_again, attempts = FakeClock(), Event(), list[int]()
    inner = counting(ran)

    def node(state: State) -> dict[str, Any]:
        attempts.append(1)
        log = inner.invoke({})["log"]
        if len(attempts) > 1:
            is_tried_again.set()
            return {"log": log}
        clock.advance(10)
        assert is_tried_again.wait(LONG)
        return {"log": ["too late"]}

    retries = RetryPolicy(initial_interval=0.0, jitter=False, retry_on=NodeTimeoutError)
    graph = StateGraph(State).add_node("node", node, retry_policy=retries, timeout=10).add_edge(START, "node")
    app = graph.compile(saver, clock=clock)
    assert driver.invoke(app, {}, THREAD, durability=durability)["log"] == ["one", "two"]
    assert ran == ["one 1", "two 1"]


def test_a_call_that_asked_and_then_ended_does_not_run_again(driver: Any, saver: Any) -> None:
    ran: list[str] = []

    def after(state: State) -> dict[str, Any]:
        ran.append("after")
        return {"log": ["after"]}

    inner = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("inside")]}).add_node("after", after)
    inner_app = inner.add_edge(START, "ask").add_edge("ask", "after").compile()

    def node(state: State) -> dict[str, Any]:
        return {"log": [*inner_app.invoke({})["log"], interrupt("own")]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver)
    for given in ({}, Command(resume="a")):
        driver.invoke(app, given, THREAD, durability="exit")
    assert driver.invoke(app, Command(resume="b"), THREAD, durability="exit")["log"] == ["a", "after", "b"]
    assert ran == ["after"]


def test_of_concurrent_tasks_only_the_calls_of_unfinished_ones_are_saved(driver: Any) -> None:
    saver, ran = Counting(), list[str]()
    inner = counting(ran)
    graph = StateGraph(State).add_node("lands", lambda state: inner.invoke({})).add_edge(START, "lands")
    graph.add_node("asks", lambda state: {"log": [*inner.invoke({})["log"], interrupt("?")]}).add_edge(START, "asks")
    app = graph.compile(saver)
    driver.invoke(app, {}, THREAD, durability="exit")
    assert saver.namespaces_written == ["", "asks"]
    assert driver.invoke(app, Command(resume="a"), THREAD, durability="exit")["log"] == ["one", "two"] * 2 + ["a"]
    assert sorted(ran) == ["one 1"] * 2 + ["two 1"] * 2


def test_a_call_that_cannot_be_saved_does_not_hide_why_its_node_failed(driver: Any, tmp_path: Path) -> None:
    inner = (
        StateGraph({"lock": None}).add_node("take", lambda state: {"lock": Lock()}).add_edge(START, "take").compile()
    )

    def node(state: State) -> dict[str, Any]:
        inner.invoke({})
        if state.get("seen"):
            raise LookupError("of the node")
        return {"log": [interrupt("?")]}

    with SqliteSaver(tmp_path / "threads.db") as saver:
        app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver)
        with pytest.raises(LookupError, match="of the node") as failed:
            driver.invoke(app, {"seen": 1}, THREAD, durability="exit")
        assert "The result of a subgraph call made by node 'node' was not saved" in str(failed.value.__notes__)
        with pytest.raises(SerdeError, match="lock"):
            driver.invoke(app, {}, thread_id="another", durability="exit")


def _next(driver: Any, app: Any) -> Any:
    """What comes of going on: whoever crashed has let go of the thread by now."""
    lease = app.checkpointer.lease("t")
    if lease is not None:
        app.checkpointer._threads["t"].owner = None
    return driver.invoke(app, None, THREAD, durability="exit")
