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


def graph_of(depth: int, saver: Any) -> Any:
    """Two parallel nodes that ask, each with a successor; nested `depth` levels deep."""
    inner = StateGraph(State)
    for name in "ab":
        inner.add_node(name, asking(name)).add_node(f"after_{name}", saying(f"after {name}"))
        inner.add_edge(START, name).add_edge(name, f"after_{name}").add_edge(f"after_{name}", END)
    app: Any = inner.compile(saver if depth == 0 else None)
    for level in range(depth):
        outer = StateGraph(State).add_node("inner", app).add_edge(START, "inner")
        app = outer.compile(saver if level == depth - 1 else None)
    return app


def innermost_config(app: Any, depth: int) -> Any:
    """The config of the innermost graph."""
    state = app.get_state(THREAD, subgraphs=True)
    for _ in range(depth):
        state = state.tasks[0].state
    return state.config


def ids(app: Any) -> dict[str, str]:
    return {question.value: question.id for question in app.get_state(THREAD).interrupts}


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("cancel_pending", [False, True])
def test_an_update_as_the_waiting_node_closes_its_question(
    driver: Any, saver: Any, depth: int, cancel_pending: bool
) -> None:
    app = graph_of(depth, saver)
    driver.invoke(app, {}, THREAD)
    questions = ids(app)
    app.update_state(innermost_config(app, depth), {"log": ["by hand"]}, "a", cancel_pending=cancel_pending)
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={questions["a?"]: "late"}), THREAD)
    result = driver.invoke(app, None, THREAD)
    if cancel_pending:
        assert result == {"log": ["by hand", "after a"]}
        return
    assert {question.value: question.id for question in result["__interrupt__"]} == {"b?": questions["b?"]}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={questions["a?"]: "late"}), THREAD)
    result = driver.invoke(app, Command(resume="B"), THREAD)
    assert sorted(result["log"]) == ["B", "after a", "after b", "by hand"]


@pytest.mark.parametrize("depth", [0, 1])
def test_an_update_as_another_node_leaves_questions_open(driver: Any, saver: Any, depth: int) -> None:
    app = graph_of(depth, saver)
    driver.invoke(app, {}, THREAD)
    questions = ids(app)
    app.update_state(innermost_config(app, depth), {"log": ["more"]}, "after_a")
    driver.invoke(app, None, THREAD)
    assert ids(app) == questions
    result = driver.invoke(app, Command(resume={questions["a?"]: "A", questions["b?"]: "B"}), THREAD)
    assert sorted(result["log"]) == ["A", "B", "after a", "after b", "more"]


def test_a_fork_asks_its_questions_again_and_rolling_back_closes_them(driver: Any, saver: Any) -> None:
    app = graph_of(0, saver)
    driver.invoke(app, {}, THREAD)
    questions = ids(app)
    waiting = app.get_state(THREAD).config
    driver.invoke(app, Command(resume={questions["a?"]: "A", questions["b?"]: "B"}), THREAD)
    app.fork(waiting)
    assert ids(app) == questions  # a fork does not copy answers
    app.roll_back(THREAD)
    assert ids(app) == {}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={questions["a?"]: "late"}), THREAD)


# -- questions of subgraphs with thread memory


def remembering(saver: Any, depth: int, form: str) -> Any:
    """A graph that asks in subgraphs with thread memory, `depth` levels deep."""
    app: Any = StateGraph(State).add_node("ask", asking("ask")).add_edge(START, "ask").compile()
    for level in range(depth):
        node = app if form == "node" else (lambda state, app=app: {"log": app.invoke({}, memory="thread")["log"][-1:]})
        outer = StateGraph(State).add_node("sub", node, **({"memory": "thread"} if form == "node" else {}))
        app = outer.add_edge(START, "sub").compile(saver if level == depth - 1 else None)
    return app


def restart(driver: Any, app: Any, action: str) -> tuple[Any, dict[str, Any]]:
    """Discard the waiting task and start again; return the result and the config of the branch."""
    config: dict[str, Any] = {"configurable": {"thread_id": "1"}}
    if action == "discard":
        return driver.invoke(app, {}, config, on_unfinished="discard"), config
    if action == "fork":
        app.fork(config, branch="other")
        config["configurable"]["branch"] = "other"
        return driver.invoke(app, {}, config, on_unfinished="discard"), config
    as_node = {"as the node": "sub", "as the end": END, "cancelled": START}[action]
    app.update_state(config, {"log": ["by hand"]}, as_node, cancel_pending=action == "cancelled")
    return driver.invoke(app, None if action == "cancelled" else {}, config), config


@pytest.mark.parametrize("form", ["node", "call"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("action", ["discard", "fork", "as the node", "as the end", "cancelled"])
def test_discarding_a_task_closes_the_questions_in_its_memory(
    driver: Any, saver: Any, action: str, depth: int, form: str
) -> None:
    app = remembering(saver, depth, form)
    (before,) = driver.invoke(app, {}, THREAD)["__interrupt__"]
    result, config = restart(driver, app, action)
    (now,) = result["__interrupt__"]
    assert now.id != before.id
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={before.id: "late"}), config)
    assert driver.invoke(app, Command(resume="yes"), config)["log"][-1] == "yes"
    assert driver.invoke(app, {}, config)["__interrupt__"][0].id not in (before.id, now.id)


def test_a_memory_that_a_waiting_task_uses_is_refused_to_others(driver: Any, saver: Any) -> None:
    inner = StateGraph(State).add_node("ask", asking("ask")).add_edge(START, "ask").compile()
    graph = StateGraph(State).add_node("sub", inner, memory="thread")
    graph.add_node("send", lambda state: [Send("sub", {}), Send("sub", {})], destinations=["sub"])
    app = graph.add_edge(START, "send").compile(saver)
    with pytest.raises(NamespaceBusy, match="'sub'"):
        driver.invoke(app, {}, THREAD, max_concurrency=1)  # the second begins after the first has asked


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
