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


class NamespaceRecorder(InMemorySaver):
    """Records the namespace of each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.namespaces_written: list[str] = []

    def commit(self, commit: Any, **options: Any) -> Any:
        self.namespaces_written.append(commit.branch_key.namespace.partition(":")[0])
        return super().commit(commit, **options)


def around(inner: StateGraph, after: Any = lambda state: None, memory: Any = "call") -> StateGraph:
    """Build a graph of `before`, a subgraph and `after`."""
    graph = StateGraph(State).add_node("before", lambda state: {"log": ["before"]})
    graph.add_node("sub", inner.compile(), memory=memory).add_node("after", after)
    return graph.add_edge(START, "before").add_edge("before", "sub").add_edge("sub", "after").add_edge("after", END)


def paying_subgraph(paid: list[str], last: Any = lambda state: {"log": ["last"]}) -> StateGraph:
    """Build a subgraph of a node with a step, and a last node."""

    def pay(state: State, runtime: Runtime) -> dict[str, Any]:
        runtime.step("pay", paid.append, "paid")
        return {"log": ["pay"]}

    graph = StateGraph(State).add_node("pay", pay).add_node("last", last)
    return graph.add_edge(START, "pay").add_edge("pay", "last").add_edge("last", END)


class Crash(BaseException):
    """Ends a run like the death of its process: nothing more is saved."""


def crash_or_end(crashes: list[bool]) -> Any:
    def node(state: State) -> dict[str, Any]:
        if crashes.pop():
            raise Crash
        return {"log": ["end"]}

    return node


def test_a_completed_call_writes_no_checkpoints(driver: Any) -> None:
    saver = NamespaceRecorder()
    inner = StateGraph(State).add_node("in", lambda state: {"log": ["in"]}).add_edge(START, "in")
    app = around(inner, lambda state: {"log": ["end"]}).compile(saver)
    assert driver.invoke(app, {}, THREAD, durability="exit")["log"] == ["before", "in", "end"]
    assert saver.namespaces_written == ["", ""]  # the input and the final state


def test_a_step_in_a_call_is_not_repeated_after_a_crash(driver: Any) -> None:
    paid: list[str] = []
    app = around(paying_subgraph(paid, crash_or_end([False, True]))).compile(InMemorySaver())
    with pytest.raises(Crash):
        driver.invoke(app, {}, THREAD, durability="exit")
    result = continue_after_crash(driver, app)
    assert result["log"] == ["before", "pay", "end"]
    assert paid == ["paid"]


def test_a_call_that_asks_continues_after_the_answer(driver: Any) -> None:
    paid: list[str] = []
    app = around(paying_subgraph(paid, lambda state: {"log": [interrupt("how?")]})).compile(InMemorySaver())
    driver.invoke(app, {}, THREAD, durability="exit")
    result = driver.invoke(app, Command(resume="so"), THREAD, durability="exit")
    assert result["log"] == ["before", "pay", "so"]
    assert paid == ["paid"]


def test_the_memory_of_a_call_counts_once_despite_a_crash(driver: Any) -> None:
    inner = StateGraph(State).add_node("count", lambda state: {"visits": 1})
    inner.add_node("show", lambda state: {"seen": state["visits"]})
    inner.add_edge(START, "count").add_edge("count", "show")
    app = around(inner, crash_or_end([False, True]), "thread").compile(InMemorySaver())
    with pytest.raises(Crash):
        driver.invoke(app, {}, THREAD, durability="exit")
    assert continue_after_crash(driver, app)["seen"] == 1


def test_a_waiting_run_saves_each_namespace_once() -> None:
    saver = NamespaceRecorder()
    inner = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = around(inner).compile(saver)
    app.invoke({}, THREAD, durability="exit")
    assert saver.namespaces_written == ["", "", "sub"]  # the waiting caller is saved before its call


# -- completed calls of unfinished tasks


def tracked_graph(ran: list[str], depth: int = 1) -> Any:
    """Compile a graph of two nodes that are noted as they run; the second one calls `depth - 1` more of them."""

    def one(state: State) -> dict[str, Any]:
        ran.append(f"one {depth}")
        return {"log": ["one"]}

    def two(state: State) -> dict[str, Any]:
        ran.append(f"two {depth}")
        return {"log": ["two"]} if depth == 1 else {"log": tracked_graph(ran, depth - 1).invoke({})["log"]}

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
@pytest.mark.sampled(4)
def test_a_completed_call_is_not_repeated_when_its_node_asks(
    driver: Any, saver: Any, durability: str, depth: int, form: str
) -> None:
    ran: list[str] = []
    inner = tracked_graph(ran, depth)

    def plain(state: State) -> dict[str, Any]:
        return {"log": [*FORMS[form](inner), interrupt("first"), interrupt("second")]}

    async def coroutine(state: State) -> dict[str, Any]:
        result = await inner.ainvoke({})
        return {"log": [*result["log"], interrupt("first"), interrupt("second")]}

    node = coroutine if form == "ainvoke" else plain
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
def test_a_completed_subgraph_is_not_repeated_when_its_conditional_edge_asks(
    driver: Any, saver: Any, durability: str
) -> None:
    ran: list[str] = []
    graph = StateGraph(State).add_node("sub", tracked_graph(ran)).add_edge(START, "sub")
    graph.add_node("end", lambda state: {"log": ["end"]})
    app = graph.add_conditional_edges("sub", lambda state: interrupt("where?"), ["end", END]).compile(saver)
    driver.invoke(app, {}, THREAD, durability=durability)
    assert driver.invoke(app, Command(resume="end"), THREAD, durability=durability)["log"] == ["one", "two", "end"]
    assert ran == ["one 1", "two 1"]


@pytest.mark.parametrize("is_retried", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_completed_call_is_not_repeated_when_its_node_fails(
    driver: Any, saver: Any, durability: str, depth: int, is_retried: bool
) -> None:
    ran: list[str] = []
    failures = [True]
    inner = tracked_graph(ran, depth)

    def node(state: State) -> dict[str, Any]:
        log = inner.invoke({})["log"]
        if failures:
            failures.pop()
            raise ConnectionError("gone")
        return {"log": log}

    retries = RetryPolicy(initial_interval=0.0, jitter=False) if is_retried else None
    graph = StateGraph(State).add_node("node", node, retry_policy=retries).add_edge(START, "node")
    app = graph.compile(saver)
    if not is_retried:
        with pytest.raises(ConnectionError):
            driver.invoke(app, {}, THREAD, durability=durability)
    result = driver.invoke(app, {} if is_retried else None, THREAD, durability=durability)

    assert result["log"] == [*["one"] * depth, "two"]
    assert sorted(ran) == sorted(f"{name} {level + 1}" for name in ("one", "two") for level in range(depth))
    assert list(saver.namespaces("t")) == [""]


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_completed_call_is_not_repeated_when_its_node_times_out(driver: Any, saver: Any, durability: str) -> None:
    ran: list[str] = []
    clock, has_retried, attempts = FakeClock(), Event(), list[int]()
    inner = tracked_graph(ran)

    def node(state: State) -> dict[str, Any]:
        attempts.append(1)
        log = inner.invoke({})["log"]
        if len(attempts) > 1:
            has_retried.set()
            return {"log": log}
        clock.advance(10)
        assert has_retried.wait(LONG)
        return {"log": ["too late"]}

    retries = RetryPolicy(initial_interval=0.0, jitter=False, retry_on=NodeTimeoutError)
    graph = StateGraph(State).add_node("node", node, retry_policy=retries, timeout=10).add_edge(START, "node")
    app = graph.compile(saver, clock=clock)
    assert driver.invoke(app, {}, THREAD, durability=durability)["log"] == ["one", "two"]
    assert ran == ["one 1", "two 1"]


def test_a_call_that_completed_after_an_answer_is_not_repeated(driver: Any, saver: Any) -> None:
    ran: list[str] = []

    def after(state: State) -> dict[str, Any]:
        ran.append("after")
        return {"log": ["after"]}

    inner = StateGraph(State).add_node("ask", lambda state: {"log": [interrupt("inside")]}).add_node("after", after)
    inner_app = inner.add_edge(START, "ask").add_edge("ask", "after").compile()

    def node(state: State) -> dict[str, Any]:
        return {"log": [*inner_app.invoke({})["log"], interrupt("own")]}

    app = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver)
    for value in ({}, Command(resume="a")):
        driver.invoke(app, value, THREAD, durability="exit")
    assert driver.invoke(app, Command(resume="b"), THREAD, durability="exit")["log"] == ["a", "after", "b"]
    assert ran == ["after"]


def test_only_calls_of_unfinished_tasks_are_saved(driver: Any) -> None:
    saver, ran = NamespaceRecorder(), list[str]()
    inner = tracked_graph(ran)
    graph = StateGraph(State).add_node("lands", lambda state: inner.invoke({})).add_edge(START, "lands")
    graph.add_node("asks", lambda state: {"log": [*inner.invoke({})["log"], interrupt("?")]}).add_edge(START, "asks")
    app = graph.compile(saver)
    driver.invoke(app, {}, THREAD, durability="exit")
    assert saver.namespaces_written == ["", "asks"]
    assert driver.invoke(app, Command(resume="a"), THREAD, durability="exit")["log"] == ["one", "two"] * 2 + ["a"]
    assert sorted(ran) == ["one 1"] * 2 + ["two 1"] * 2


def test_an_unsaveable_call_does_not_hide_the_error_of_its_node(driver: Any, tmp_path: Path) -> None:
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


def continue_after_crash(driver: Any, app: Any) -> Any:
    """Continue the thread, as if the lease of the crashed run had lapsed."""
    lease = app.checkpointer.lease("t")
    if lease is not None:
        app.checkpointer._threads["t"].owner = None
    return driver.invoke(app, None, THREAD, durability="exit")
