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


class Counted:
    """Nodes that ask beside each other, each followed by another node, and how often each ran."""

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
    """The graph as a subgraph, `depth` levels down: as a node, or called in one."""
    app: Any = inner.compile(saver if depth == 0 else None)
    for level in range(depth):
        graph = StateGraph(State)
        if form == "node":
            graph.add_node("inner", app, memory=memory)
        else:
            graph.add_node("inner", lambda state, app=app: {"log": app.invoke({}, memory=memory)["log"]})
        app = graph.add_edge(START, "inner").compile(saver if level == depth - 1 else None)
    return app


def asked(result: Any) -> dict[str, str]:
    """The ids of the open questions by value."""
    return {one.value: one.id for one in result.get("__interrupt__", ())}


FORMS = [(0, "node", "call"), (1, "node", "call"), (2, "node", "call"), (1, "called", "call"), (1, "node", "thread")]


@pytest.mark.parametrize(("depth", "form", "memory"), FORMS)
def test_the_task_that_has_its_answers_runs_on(driver: Any, saver: Any, depth: int, form: str, memory: Any) -> None:
    counted = Counted()
    app = nested(counted.inner(), saver, depth, form, memory)
    first = asked(driver.invoke(app, {}, THREAD))
    assert set(first) == {"a?", "b?"}

    second = asked(driver.invoke(app, Command(resume={first["a?"]: 1}), THREAD))
    assert set(second) == {"a??", "b?"}
    assert counted.runs.count("a") == 2
    assert counted.runs.count("b") == 1
    assert second["b?"] == first["b?"]
    assert {one.value for one in app.get_state(THREAD).interrupts} == {"a??", "b?"}

    third = asked(driver.invoke(app, Command(resume={second["b?"]: 3}), THREAD))
    assert set(third) == {"a??"}
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={first["a?"]: 9}), THREAD)
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == [1, 2, 3]
    assert (counted.runs.count("a"), counted.runs.count("b")) == (3, 2)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_call_that_saves_nothing_keeps_what_it_was_answered(driver: Any, saver: Any, depth: int) -> None:
    app = nested(Counted().inner(), saver, depth, "node", "none")
    first = asked(driver.invoke(app, {}, THREAD))
    second = asked(driver.invoke(app, Command(resume={first["a?"]: 1}), THREAD))
    assert set(second) == {"a??", "b?"}
    driver.invoke(app, Command(resume={second["b?"]: 3}), THREAD)
    assert driver.invoke(app, Command(resume=2), THREAD)["log"] == [1, 2, 3]


def test_an_answer_that_was_saved_before_a_crash_takes_effect_with_the_next_run(driver: Any, saver: Any) -> None:
    from statewright.checkpoint import Pending

    counted = Counted()
    app = nested(counted.inner(), saver, 1, "node")
    first = asked(driver.invoke(app, {}, THREAD))
    head = saver.load("1")
    saver_answer = saver.save_results(head.branch_key, head.id, Pending(answers={first["a?"]: 1}))
    if saver_answer is not None:
        saver_answer.result()
    assert set(asked(driver.invoke(app, None, THREAD))) == {"a??", "b?"}
    assert (counted.runs.count("a"), counted.runs.count("b")) == (2, 1)


def test_a_timer_next_to_it_keeps_its_time(driver: Any, saver: Any) -> None:
    clock = FakeClock()
    counted = Counted()

    def wait(state: State) -> dict[str, Any]:
        counted.runs.append("wait")
        sleep(60)
        return {"log": ["waited"]}

    inner = counted.inner().add_node(wait).add_edge(START, "wait").compile()
    app = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(saver, clock=clock)
    first = driver.invoke(app, {}, THREAD)["__interrupt__"]
    (timer,) = [one for one in first if one.kind == "timer"]
    clock.advance(30)
    (b,) = [one.id for one in first if one.value == "b?"]
    second = driver.invoke(app, Command(resume={b: 1}), THREAD)["__interrupt__"]
    assert timer in second
    assert counted.runs.count("wait") == 1
    clock.advance(31)
    left = app.resume_due(THREAD)["__interrupt__"]
    assert [one.value for one in left] == ["a?"]


@pytest.mark.parametrize(("depth", "form", "memory"), FORMS)
@pytest.mark.parametrize("branch", ["other", None])
def test_a_fork_has_the_position_of_its_origin(
    driver: Any, saver: Any, depth: int, form: str, memory: Any, branch: str | None
) -> None:
    counted = Counted()
    app = nested(counted.inner(), saver, depth, form, memory)
    first = asked(driver.invoke(app, {}, THREAD))
    driver.invoke(app, Command(resume={first["b?"]: "B", first["a?"]: "A"}), THREAD)
    counted.runs.clear()

    app.fork(THREAD, branch=branch)
    fork: dict[str, Any] = {"configurable": {"thread_id": "1", "branch": branch or "main"}}
    state = app.get_state(fork)
    assert [one.value for one in state.interrupts] == ["a??"]
    assert [one.value for task in state.tasks for one in task.interrupts] == ["a??"]
    with pytest.raises(InvalidResume):
        driver.invoke(app, Command(resume={first["b?"]: "late"}), fork)
    assert sorted(driver.invoke(app, Command(resume="AA"), fork)["log"]) == ["A", "AA", "B"]
    assert counted.runs == ["a"]
    if branch is not None:
        assert sorted(driver.invoke(app, Command(resume="AAA"), THREAD)["log"]) == ["A", "AAA", "B"]


def test_a_fork_of_the_past_asks_what_was_asked_last(driver: Any, saver: Any) -> None:
    app = nested(Counted().inner(), saver, 0, "node")
    first = asked(driver.invoke(app, {}, THREAD))
    waiting = app.get_state(THREAD).config
    driver.invoke(app, Command(resume={first["a?"]: "A"}), THREAD)
    driver.invoke(app, Command(resume={first["b?"]: "B"}), THREAD)
    driver.invoke(app, Command(resume="AA"), THREAD)

    app.fork(waiting)
    assert list(asked(driver.invoke(app, None, THREAD))) == ["a??"]
    assert driver.invoke(app, Command(resume="new"), THREAD)["log"] == ["A", "new", "B"]
