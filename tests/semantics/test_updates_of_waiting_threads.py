"""Questions of tasks that a change from outside has done, discarded or put back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, StateGraph, append, interrupt
from statewright.errors import InvalidResume
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


THREAD = {"configurable": {"thread_id": "1"}}


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(tmp_path / "threads.db") as opened:
        yield opened


def asking(name: str) -> Any:
    def node(state: State) -> dict[str, Any]:
        return {"log": [interrupt(f"{name}?")]}

    return node


def saying(name: str) -> Any:
    return lambda state: {"log": [name]}


def graph(depth: int, saver: Any) -> Any:
    """Two nodes that ask beside each other, each with a successor; as a subgraph `depth` levels down."""
    inner = StateGraph(State)
    for name in "ab":
        inner.add_node(name, asking(name)).add_node(f"after_{name}", saying(f"after {name}"))
        inner.add_edge(START, name).add_edge(name, f"after_{name}").add_edge(f"after_{name}", END)
    app: Any = inner.compile(saver if depth == 0 else None)
    for level in range(depth):
        outer = StateGraph(State).add_node("inner", app).add_edge(START, "inner")
        app = outer.compile(saver if level == depth - 1 else None)
    return app


def inside(app: Any, depth: int) -> Any:
    """The config of the innermost graph."""
    state = app.get_state(THREAD, subgraphs=True)
    for _ in range(depth):
        state = state.tasks[0].state
    return state.config


def ids(app: Any) -> dict[str, str]:
    return {one.value: one.id for one in app.get_state(THREAD).interrupts}


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("cancel_pending", [False, True])
def test_an_update_as_the_waiting_node_closes_its_question(
    driver: Any, saver: Any, depth: int, cancel_pending: bool
) -> None:
    app = graph(depth, saver)
    driver.invoke(app, {}, THREAD)
    asked = ids(app)
    app.update_state(inside(app, depth), {"log": ["by hand"]}, "a", cancel_pending=cancel_pending)
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={asked["a?"]: "late"}), THREAD)
    result = driver.invoke(app, None, THREAD)
    if cancel_pending:
        assert result == {"log": ["by hand", "after a"]}
        return
    assert {one.value: one.id for one in result["__interrupt__"]} == {"b?": asked["b?"]}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={asked["a?"]: "late"}), THREAD)
    result = driver.invoke(app, Command(resume="B"), THREAD)
    assert sorted(result["log"]) == ["B", "after a", "after b", "by hand"]


@pytest.mark.parametrize("depth", [0, 1])
def test_an_update_as_another_node_leaves_questions_open(driver: Any, saver: Any, depth: int) -> None:
    app = graph(depth, saver)
    driver.invoke(app, {}, THREAD)
    asked = ids(app)
    app.update_state(inside(app, depth), {"log": ["more"]}, "after_a")
    driver.invoke(app, None, THREAD)
    assert ids(app) == asked
    result = driver.invoke(app, Command(resume={asked["a?"]: "A", asked["b?"]: "B"}), THREAD)
    assert sorted(result["log"]) == ["A", "B", "after a", "after b", "more"]


def test_a_question_of_a_discarded_line_is_closed_and_that_of_a_fork_is_asked_anew(driver: Any, saver: Any) -> None:
    app = graph(0, saver)
    driver.invoke(app, {}, THREAD)
    asked = ids(app)
    waiting = app.get_state(THREAD).config
    driver.invoke(app, Command(resume={asked["a?"]: "A", asked["b?"]: "B"}), THREAD)
    app.fork(waiting)
    assert ids(app) == asked  # answers do not come along
    app.roll_back(THREAD)
    assert ids(app) == {}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={asked["a?"]: "late"}), THREAD)
