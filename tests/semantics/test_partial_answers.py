"""An answer to one of several open questions takes effect at once, also inside subgraphs."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, StateGraph, append, interrupt, sleep
from statewright.errors import InvalidResume
from statewright.testing import FakeClock


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


THREAD = {"configurable": {"thread_id": "1"}}


class AskingNodes:
    """Concurrent nodes that ask questions, and the log of their executions."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def asking(self, name: str, *questions: str) -> Any:
        def node(state: State) -> dict[str, Any]:
            self.runs.append(name)
            return {"log": [interrupt(question) for question in questions]}

        node.__name__ = name
        return node

    def inner(self) -> StateGraph:
        graph = StateGraph(State)
        for node in (self.asking("a", "a?", "a??"), self.asking("b", "b?")):
            graph.add_node(node).add_edge(START, node.__name__)
        return graph


def nested(inner: StateGraph, saver: Any, depth: int, form: str, memory: Any = "call") -> Any:
    """Nest a graph `depth` levels deep, as a node or called by one."""
    app: Any = inner.compile(saver if depth == 0 else None)
    for level in range(depth):
        graph = StateGraph(State)
        if form == "node":
            graph.add_node("inner", app, memory=memory)
        else:
            graph.add_node("inner", lambda state, app=app: {"log": app.invoke({}, memory=memory)["log"]})
        app = graph.add_edge(START, "inner").compile(saver if level == depth - 1 else None)
    return app


def open_questions(result: Any) -> dict[str, str]:
    """Return the ids of the open questions by value."""
    return {question.value: question.id for question in result.get("__interrupt__", ())}


FORMS = [(0, "node", "call"), (1, "node", "call"), (2, "node", "call"), (1, "called", "call"), (1, "node", "thread")]


@pytest.mark.parametrize(("depth", "form", "memory"), FORMS)
def test_a_task_runs_again_as_soon_as_its_question_is_answered(
    driver: Any, saver: Any, depth: int, form: str, memory: Any
) -> None:
    nodes = AskingNodes()
    app = nested(nodes.inner(), saver, depth, form, memory)
    first = open_questions(driver.invoke(app, {}, THREAD))
    assert set(first) == {"a?", "b?"}

    second = open_questions(driver.invoke(app, Command(resume={first["a?"]: 1}), THREAD))
    assert set(second) == {"a??", "b?"}
    assert nodes.runs.count("a") == 2
    assert nodes.runs.count("b") == 1
    assert second["b?"] == first["b?"]
    assert {question.value for question in app.get_state(THREAD).interrupts} == {"a??", "b?"}

    third = open_questions(driver.invoke(app, Command(resume={second["b?"]: 3}), THREAD))
    assert set(third) == {"a??"}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={first["a?"]: 9}), THREAD)
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == [1, 2, 3]
    assert (nodes.runs.count("a"), nodes.runs.count("b")) == (3, 2)


@pytest.mark.parametrize("depth", [1, 2])
def test_an_unsaved_call_keeps_its_answers(driver: Any, saver: Any, depth: int) -> None:
    app = nested(AskingNodes().inner(), saver, depth, "node", "none")
    first = open_questions(driver.invoke(app, {}, THREAD))
    second = open_questions(driver.invoke(app, Command(resume={first["a?"]: 1}), THREAD))
    assert set(second) == {"a??", "b?"}
    driver.invoke(app, Command(resume={second["b?"]: 3}), THREAD)
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == [1, 2, 3]


def test_an_answer_saved_before_a_crash_takes_effect_in_the_next_run(driver: Any, saver: Any) -> None:
    from statewright.checkpoint import Pending

    nodes = AskingNodes()
    app = nested(nodes.inner(), saver, 1, "node")
    first = open_questions(driver.invoke(app, {}, THREAD))
    head = saver.load("1")
    saved = saver.save_results(head.branch_key, head.id, Pending(answers={first["a?"]: 1}))
    if saved is not None:
        saved.result()
    assert set(open_questions(driver.invoke(app, None, THREAD))) == {"a??", "b?"}
    assert (nodes.runs.count("a"), nodes.runs.count("b")) == (2, 1)


def test_an_answer_does_not_restart_the_timer_of_a_sibling(driver: Any, saver: Any) -> None:
    clock = FakeClock()
    nodes = AskingNodes()

    def wait(state: State) -> dict[str, Any]:
        nodes.runs.append("wait")
        sleep(60)
        return {"log": ["waited"]}

    inner = nodes.inner().add_node(wait).add_edge(START, "wait").compile()
    app = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(saver, clock=clock)
    first = driver.invoke(app, {}, THREAD)["__interrupt__"]
    (timer,) = [question for question in first if question.kind == "timer"]
    clock.advance(30)
    (b,) = [question.id for question in first if question.value == "b?"]
    second = driver.invoke(app, Command(resume={b: 1}), THREAD)["__interrupt__"]
    assert timer in second
    assert nodes.runs.count("wait") == 1
    clock.advance(31)
    remaining = app.resume_due(THREAD)["__interrupt__"]
    assert [question.value for question in remaining] == ["a?"]


@pytest.mark.parametrize(("depth", "form", "memory"), FORMS)
@pytest.mark.parametrize("branch", ["other", None])
def test_a_fork_keeps_the_answers_of_its_origin(
    driver: Any, saver: Any, depth: int, form: str, memory: Any, branch: str | None
) -> None:
    nodes = AskingNodes()
    app = nested(nodes.inner(), saver, depth, form, memory)
    first = open_questions(driver.invoke(app, {}, THREAD))
    driver.invoke(app, Command(resume={first["b?"]: "B", first["a?"]: "A"}), THREAD)
    nodes.runs.clear()

    app.fork(THREAD, branch=branch)
    fork: dict[str, Any] = {"configurable": {"thread_id": "1", "branch": branch or "main"}}
    state = app.get_state(fork)
    assert [question.value for question in state.interrupts] == ["a??"]
    assert [question.value for task in state.tasks for question in task.interrupts] == ["a??"]
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={first["b?"]: "late"}), fork)
    assert sorted(driver.invoke(app, Command(resume="AA"), fork)["log"]) == ["A", "AA", "B"]
    assert nodes.runs == ["a"]
    if branch is not None:
        assert sorted(driver.invoke(app, Command(resume="AAA"), THREAD)["log"]) == ["A", "AAA", "B"]


def test_a_fork_of_an_old_checkpoint_asks_the_last_open_question(driver: Any, saver: Any) -> None:
    app = nested(AskingNodes().inner(), saver, 0, "node")
    first = open_questions(driver.invoke(app, {}, THREAD))
    waiting = app.get_state(THREAD).config
    driver.invoke(app, Command(resume={first["a?"]: "A"}), THREAD)
    driver.invoke(app, Command(resume={first["b?"]: "B"}), THREAD)
    driver.invoke(app, Command(resume="AA"), THREAD)

    app.fork(waiting)
    assert list(open_questions(driver.invoke(app, None, THREAD))) == ["a??"]
    assert driver.invoke(app, Command(resume="new"), THREAD)["log"] == ["A", "new", "B"]
