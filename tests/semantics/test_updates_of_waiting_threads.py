"""Questions of tasks that an external update has completed, discarded or restored."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, Send, StateGraph, append, interrupt
from statewright.errors import InvalidResume, NamespaceBusy


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


THREAD = {"configurable": {"thread_id": "1"}}


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


def test_a_question_of_a_discarded_line_is_closed_and_that_of_a_fork_is_asked_again(driver: Any, saver: Any) -> None:
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


# -- questions that a subgraph has asked which remembers the thread


def remembering(saver: Any, depth: int, form: str) -> Any:
    """A graph that asks in subgraphs that remember the thread, `depth` levels down."""
    app: Any = StateGraph(State).add_node("ask", asking("ask")).add_edge(START, "ask").compile()
    for level in range(depth):
        node = app if form == "node" else (lambda state, app=app: {"log": app.invoke({}, memory="thread")["log"][-1:]})
        outer = StateGraph(State).add_node("sub", node, **({"memory": "thread"} if form == "node" else {}))
        app = outer.add_edge(START, "sub").compile(saver if level == depth - 1 else None)
    return app


def start_anew(driver: Any, app: Any, how: str) -> tuple[Any, dict[str, Any]]:
    """Let a task that waits be gone, and start once more; the result, and the config of the branch."""
    config: dict[str, Any] = {"configurable": {"thread_id": "1"}}
    if how == "discard":
        return driver.invoke(app, {}, config, on_unfinished="discard"), config
    if how == "fork":
        app.fork(config, branch="other")
        config["configurable"]["branch"] = "other"
        return driver.invoke(app, {}, config, on_unfinished="discard"), config
    as_node = {"as the node": "sub", "as the end": END, "cancelled": START}[how]
    app.update_state(config, {"log": ["by hand"]}, as_node, cancel_pending=how == "cancelled")
    return driver.invoke(app, None if how == "cancelled" else {}, config), config


@pytest.mark.parametrize("form", ["node", "call"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("how", ["discard", "fork", "as the node", "as the end", "cancelled"])
def test_a_memory_whose_task_is_gone_waits_for_nothing_any_more(
    driver: Any, saver: Any, how: str, depth: int, form: str
) -> None:
    app = remembering(saver, depth, form)
    (before,) = driver.invoke(app, {}, THREAD)["__interrupt__"]
    asked, config = start_anew(driver, app, how)
    (now,) = asked["__interrupt__"]
    assert now.id != before.id
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={before.id: "late"}), config)
    assert driver.invoke(app, Command(resume="yes"), config)["log"][-1] == "yes"
    assert driver.invoke(app, {}, config)["__interrupt__"][0].id not in (before.id, now.id)


def test_a_memory_that_a_task_still_waits_for_is_refused_to_others(driver: Any, saver: Any) -> None:
    inner = StateGraph(State).add_node("ask", asking("ask")).add_edge(START, "ask").compile()
    graph = StateGraph(State).add_node("sub", inner, memory="thread")
    graph.add_node("send", lambda state: [Send("sub", {}), Send("sub", {})], destinations=["sub"])
    app = graph.add_edge(START, "send").compile(saver)
    with pytest.raises(NamespaceBusy, match="'sub'"):
        driver.invoke(app, {}, THREAD, max_concurrency=1)  # the second begins when the first one has asked


def test_a_call_that_failed_next_to_a_question_releases_its_memory(driver: Any, saver: Any) -> None:
    def fail(state: State) -> None:
        raise ValueError("broken")

    inner = StateGraph(State).add_node("ask", asking("ask")).add_node(fail)
    called = inner.add_edge(START, "ask").add_edge(START, "fail").compile()

    def call(state: State) -> Any:
        try:
            called.invoke({}, memory="thread")
        except ValueError:
            return Command(update={"log": ["failed"]}, goto="call" if len(state["log"]) < 2 else END)

    app = StateGraph(State).add_node(call, destinations=["call", END]).add_edge(START, "call").compile(saver)
    assert driver.invoke(app, {}, THREAD) == {"log": ["failed"] * 3}
