"""Several tasks of one superstep return `Command(graph=PARENT)`: all take effect in the parent, in task order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, RetryPolicy, Send, StateGraph, interrupt
from statewright.channels import append
from statewright.errors import ConflictingWrites
from statewright.storage.sqlite import SqliteSaver

Node = Callable[..., Any]
Paint = Callable[[Node], Node]


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]
    a: int
    b: int


@pytest.fixture(params=["none", "memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        with SqliteSaver(tmp_path / "runs.db") as saver:
            yield saver
        return
    yield None if request.param == "none" else InMemorySaver()


@pytest.fixture(params=["memory", "sqlite"])
def durable_saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        with SqliteSaver(tmp_path / "runs.db") as saver:
            yield saver
        return
    yield InMemorySaver()


def parent_command(name: str, goto: Any = "after", **update: Any) -> Node:
    def node(state: Any) -> Command[Any]:
        return Command(graph=Command.PARENT, goto=goto, update={"log": [name], **update})

    return node


def log_name(name: str) -> Node:
    return lambda state: {"log": [name]}


def concurrent(**nodes: Node) -> StateGraph:
    graph = StateGraph(State)
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph


def parent(child: StateGraph, form: str = "node", targets: tuple[str, ...] = ("after",), **options: Any) -> StateGraph:
    """Build a graph whose node `sub` is the child, or calls it."""
    compiled = child.compile()
    action: Any = compiled if form == "node" else lambda state: compiled.invoke(state)
    graph = StateGraph(State).add_node("sub", action, destinations=list(targets), **options).add_edge(START, "sub")
    for target in targets:
        graph.add_node(target, log_name(target))
    return graph


def config_of(saver: Any) -> dict[str, Any]:
    return {} if saver is None else {"thread_id": "t"}


@pytest.mark.parametrize("form", ["node", "call"])
def test_4_3_two_parent_commands_take_effect_in_task_order(driver: Any, paint: Paint, saver: Any, form: str) -> None:
    child = concurrent(x=paint(parent_command("x", a=1)), y=paint(parent_command("y", b=2)))
    app = parent(child, form).compile(saver)
    result = driver.invoke(app, {}, **config_of(saver))
    assert result == {"log": ["x", "y", "after"], "a": 1, "b": 2}


def test_4_3_targets_of_all_parent_commands_are_due(driver: Any, paint: Paint, saver: Any) -> None:
    child = concurrent(x=paint(parent_command("x", "one")), y=paint(parent_command("y", [Send("two", {}), "one"])))
    app = parent(child, targets=("one", "two")).compile(saver)
    assert driver.invoke(app, {}, **config_of(saver))["log"] == ["x", "y", "one", "two"]


def test_4_3_two_parent_commands_that_write_one_field_conflict(driver: Any, paint: Paint, saver: Any) -> None:
    child = concurrent(x=paint(parent_command("x", a=1)), y=paint(parent_command("y", a=2)))
    with pytest.raises(ConflictingWrites, match=r"'a' was written by 'x' and 'y'"):
        driver.invoke(parent(child).compile(saver), {}, **config_of(saver))


def test_4_3_a_sibling_with_an_update_does_not_affect_parent_commands(driver: Any, paint: Paint, saver: Any) -> None:
    child = concurrent(
        x=paint(parent_command("x", a=1)), other=paint(log_name("inside")), y=paint(parent_command("y", b=2))
    )
    result = driver.invoke(parent(child).compile(saver), {}, **config_of(saver))
    assert result == {"log": ["x", "y", "after"], "a": 1, "b": 2}


def test_4_3_several_parent_commands_of_one_result_take_effect(driver: Any, saver: Any) -> None:
    child = concurrent(x=lambda s: [parent_command("one", a=1)(s), parent_command("two", b=2)(s)])
    result = driver.invoke(parent(child).compile(saver), {}, **config_of(saver))
    assert result == {"log": ["one", "two", "after"], "a": 1, "b": 2}


def test_4_3_a_parent_command_waits_for_the_question_of_a_sibling(
    driver: Any, paint: Paint, durable_saver: Any
) -> None:
    runs: list[str] = []

    def x(state: Any) -> Any:
        runs.append("x")
        return parent_command("x", a=1)(state)

    child = concurrent(x=paint(x), asks=paint(lambda s: {"log": [interrupt("?")]}), y=paint(parent_command("y", b=2)))
    app = parent(child).compile(durable_saver)
    paused = driver.invoke(app, {}, thread_id="t")
    assert [question.value for question in paused["__interrupt__"]] == ["?"]
    result = driver.invoke(app, Command(resume="yes"), thread_id="t")
    assert result == {"log": ["x", "y", "after"], "a": 1, "b": 2}
    assert runs == ["x"], "finished tasks do not run again"


def test_4_3_a_parent_command_is_kept_when_a_sibling_fails(driver: Any, paint: Paint, durable_saver: Any) -> None:
    broken = [True]

    def fails(state: Any) -> Any:
        if broken:
            raise LookupError("once")
        return parent_command("late", b=2)(state)

    app = parent(concurrent(x=parent_command("x", [Send("after", {"log": []})], a=1), fails=paint(fails))).compile(
        durable_saver
    )
    with pytest.raises(LookupError):
        driver.invoke(app, {}, thread_id="t")
    broken.clear()
    result = driver.invoke(app, None, thread_id="t")
    assert {name: result[name] for name in ("a", "b")} == {"a": 1, "b": 2}
    assert result["log"] == ["x", "late", "after", "after"]


def test_4_3_parent_commands_of_sends_take_effect_together(driver: Any, paint: Paint, saver: Any) -> None:
    def work(number: int) -> Any:
        return parent_command(f"work {number}")(None)

    child = StateGraph(State).add_node("plan", lambda s: [Send("work", n) for n in (3, 1, 2)], destinations=["work"])
    child.add_node("work", paint(work)).add_edge(START, "plan")
    result = driver.invoke(parent(child).compile(saver), {}, **config_of(saver))
    assert result["log"] == ["work 3", "work 1", "work 2", "after"]


def test_4_3_parent_commands_take_effect_at_each_level(driver: Any, paint: Paint, saver: Any) -> None:
    leaf = concurrent(x=paint(parent_command("x", "mid")), y=paint(parent_command("y", "mid")))
    middle = parent(leaf, targets=("mid",))
    middle.add_node("up", parent_command("up", a=1)).add_node("down", parent_command("down", b=2))
    middle.add_edge("mid", "up").add_edge("mid", "down")
    result = driver.invoke(parent(middle).compile(saver), {}, **config_of(saver))
    assert result == {"log": ["up", "down", "after"], "a": 1, "b": 2}


def test_4_3_two_concurrent_subgraphs_return_commands_to_one_parent(driver: Any, saver: Any) -> None:
    child = concurrent(x=parent_command("x", a=1), y=parent_command("y", b=2)).compile()
    graph = StateGraph(State).add_node("one", child, destinations=["after"]).add_node("after", log_name("after"))
    graph.add_node("two", concurrent(z=parent_command("z")).compile(), destinations=["after"])
    result = driver.invoke(graph.add_edge(START, "one").add_edge(START, "two").compile(saver), {}, **config_of(saver))
    assert result == {"log": ["x", "y", "z", "after"], "a": 1, "b": 2}


def test_4_3_parent_commands_without_goto_follow_the_edges_once(driver: Any, saver: Any) -> None:
    child = concurrent(x=parent_command("x", ()), y=parent_command("y", ()))
    graph = StateGraph(State).add_node("sub", child.compile()).add_node("next", log_name("next"))

    async def path(state: Any) -> str:
        return "next" if state["log"] == ["x", "y"] else END

    graph.add_edge(START, "sub").add_conditional_edges("sub", path, ["next"])
    assert driver.invoke(graph.compile(saver), {}, **config_of(saver))["log"] == ["x", "y", "next"]


def test_4_3_a_memory_keeps_the_writes_of_siblings_of_a_parent_command(driver: Any, durable_saver: Any) -> None:
    class Inner(TypedDict, total=False):
        seen: Annotated[list[int], append]
        log: Annotated[list[Any], append]

    def x(state: Any) -> Command[Any]:
        return Command(graph=Command.PARENT, update={"log": [state.get("seen", [])]})

    child = StateGraph(Inner).add_node("x", x)
    child.add_node("note", lambda s: {"seen": [len(s.get("seen", []))]}).add_edge(START, "x").add_edge(START, "note")
    graph = StateGraph(State).add_node("sub", child.compile(), memory="thread").add_edge(START, "sub")
    app = graph.compile(durable_saver)
    for _ in range(2):
        driver.invoke(app, {}, thread_id="t")
    assert driver.invoke(app, {}, thread_id="t")["log"] == [[], [0], [0, 1]]


def test_4_3_a_retried_node_may_return_a_parent_command(driver: Any, saver: Any) -> None:
    failures = [LookupError("first")]

    def flaky(state: Any) -> Any:
        if failures:
            raise failures.pop()
        return parent_command("flaky", a=1)(state)

    child = StateGraph(State).add_node("y", parent_command("y", b=2)).add_edge(START, "y").add_edge(START, "flaky")
    child.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.0, retry_on=LookupError))
    result = driver.invoke(parent(child).compile(saver), {}, **config_of(saver))
    assert result == {"log": ["y", "flaky", "after"], "a": 1, "b": 2}
