"""Forks of a checkpoint whose tasks have called subgraphs: each branch continues with its own calls."""

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Runtime, StateGraph, interrupt
from statewright.channels import append

MAIN = {"configurable": {"thread_id": "t"}}
OTHER = {"configurable": {"thread_id": "t", "branch": "other"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], append]


def paying_graph(paid: list[str]) -> StateGraph:
    """Build a graph that pays once, and asks twice."""

    def pay(state: State, runtime: Runtime) -> dict[str, Any]:
        runtime.step("pay", paid.append, "paid")
        return {"log": ["pay"]}

    graph = StateGraph(State).add_node("pay", pay)
    graph.add_node("one", lambda state: {"log": [interrupt("one?")]})
    graph.add_node("two", lambda state: {"log": [interrupt("two?")]})
    return graph.add_edge(START, "pay").add_edge("pay", "one").add_edge("one", "two").add_edge("two", END)


def nested(graph: StateGraph, depth: int) -> StateGraph:
    for _ in range(depth):
        graph = StateGraph(State).add_node("sub", graph.compile()).add_edge(START, "sub").add_edge("sub", END)
    return graph


@pytest.mark.parametrize("depth", [1, 2])
def test_a_fork_continues_its_own_copy_of_a_call(driver: Any, depth: int) -> None:
    paid: list[str] = []
    app = nested(paying_graph(paid), depth).compile(InMemorySaver())
    driver.invoke(app, {}, MAIN)
    app.fork(app.get_state(MAIN).config, branch="other")
    driver.invoke(app, Command(resume="other 1"), OTHER)

    driver.invoke(app, Command(resume="main 1"), MAIN)
    assert driver.invoke(app, Command(resume="main 2"), MAIN)["log"] == ["pay", "main 1", "main 2"]
    assert driver.invoke(app, Command(resume="other 2"), OTHER)["log"] == ["pay", "other 1", "other 2"]
    assert paid == ["paid"]


def test_calls_of_a_fork_are_deleted_when_its_tasks_are_done(driver: Any) -> None:
    app = nested(paying_graph([]), 2).compile(InMemorySaver())
    driver.invoke(app, {}, MAIN)
    app.fork(app.get_state(MAIN).config, branch="other")
    for config in (MAIN, OTHER):
        driver.invoke(app, Command(resume="1"), config)
        driver.invoke(app, Command(resume="2"), config)
    assert list(app.checkpointer.namespaces("t")) == [""]


def test_a_fork_of_a_fork_has_its_own_calls(driver: Any) -> None:
    app = nested(paying_graph([]), 1).compile(InMemorySaver())
    driver.invoke(app, {}, MAIN)
    app.fork(app.get_state(MAIN).config, branch="other")
    driver.invoke(app, Command(resume="other 1"), OTHER)
    app.fork(app.get_state(OTHER).config, branch="third")
    third = {"configurable": {"thread_id": "t", "branch": "third"}}
    assert driver.invoke(app, Command(resume="third 2"), third)["log"] == ["pay", "other 1", "third 2"]
    assert driver.invoke(app, Command(resume="other 2"), OTHER)["log"] == ["pay", "other 1", "other 2"]
