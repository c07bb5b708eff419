"""A graph that is streamed, stepped or batched inside a node is a part of that node's task, as one that is invoked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, InMemorySaver, Send, StateGraph, interrupt
from statewright.channels import append
from statewright.storage.sqlite import SqliteSaver


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        with SqliteSaver(tmp_path / "runs.db") as saver:
            yield saver
        return
    yield InMemorySaver()


def say(name: str) -> Callable[[Any], Any]:
    return lambda state: {"log": [name]}


def asking() -> StateGraph:
    graph = StateGraph(State).add_node("before", say("before"))
    graph.add_node("ask", lambda s: {"log": [interrupt("?")]}).add_node("after", say("after"))
    return graph.add_edge(START, "before").add_edge("before", "ask").add_edge("ask", "after")


def by_stream(child: Any, state: Any) -> Any:
    return list(child.stream(state, stream_mode="values"))[-1]


def by_updates(child: Any, state: Any) -> Any:
    return {"log": [name for part in child.stream(state) for name in part]}


async def by_astream(child: Any, state: Any) -> Any:
    return [part async for part in child.astream(state, stream_mode="values")][-1]


def by_iter(child: Any, state: Any) -> Any:
    return [step.values for step in child.iter(state)][-1]


def by_batch(child: Any, state: Any) -> Any:
    return child.batch([state])[0]


async def by_abatch(child: Any, state: Any) -> Any:
    return (await child.abatch([state], return_exceptions=True))[0]


def by_mode(child: Any, state: Any) -> Any:
    return child.invoke(state, stream_mode=["values"])[-1][1]


FORMS = [by_stream, by_updates, by_astream, by_iter, by_batch, by_abatch, by_mode]


def calling(child: Any, form: Any, **options: Any) -> StateGraph:
    """A graph whose node runs the child in one of the forms."""
    if asyncio.iscoroutinefunction(form):

        async def call(state: Any) -> Any:
            return await form(child, {"log": []})

        return StateGraph(State).add_node("call", call, **options).add_edge(START, "call")
    node = lambda state: form(child, {"log": []})  # noqa: E731
    return StateGraph(State).add_node("call", node, **options).add_edge(START, "call")


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_its_questions_come_out_and_it_goes_on_where_it_was(driver: Any, saver: Any, form: Any, depth: int) -> None:
    graph = asking()
    for _ in range(depth):
        graph = calling(graph.compile(), form)
    app = graph.compile(saver)
    asked = driver.invoke(app, {}, thread_id="t")
    assert [one.value for one in asked["__interrupt__"]] == ["?"]
    assert len(list(saver.namespaces("t"))) == 1 + depth, "it is saved in the thread of its caller"
    result = driver.invoke(app, Command(resume="yes"), thread_id="t")["log"]
    if form is not by_updates:
        assert result == ["before", "yes", "after"]
    elif depth == 1:
        assert result == ["ask", "after"], "what was done before the question is not done again"
    assert list(saver.namespaces("t")) == [""], "and goes with the task that called it"


@pytest.mark.parametrize("form", FORMS)
def test_its_errors_are_those_of_the_node(driver: Any, form: Any) -> None:
    def fail(state: Any) -> Any:
        raise LookupError("inside")

    child = StateGraph(State).add_node("fail", fail).add_edge(START, "fail").compile()
    if form is by_abatch:
        assert isinstance(asyncio.run(child.abatch([{}], return_exceptions=True))[0], Exception)
        return
    with pytest.raises(LookupError, match="inside") as caught:
        driver.invoke(calling(child, form).compile(), {})
    assert {note.split(",")[0] for note in caught.value.__notes__} == {"in node 'fail'", "in node 'call'"}


@pytest.mark.parametrize("form", FORMS)
def test_a_command_for_the_parent_leaves_the_calling_node(driver: Any, form: Any) -> None:
    child = StateGraph(State).add_node("x", lambda s: Command(graph=Command.PARENT, goto="next", update={"log": ["x"]}))
    graph = calling(child.add_edge(START, "x").compile(), form, destinations=["next"]).add_node("next", say("next"))
    assert driver.invoke(graph.compile(), {})["log"] == ["x", "next"]


def test_the_questions_of_a_batch_come_out_together_and_are_told_apart(driver: Any, saver: Any) -> None:
    ask = (
        StateGraph(State).add_node("ask", lambda s: {"log": [interrupt(s["log"][0])]}).add_edge(START, "ask").compile()
    )

    def call(state: Any) -> Any:
        results = ask.batch([{"log": [number]} for number in range(5)])
        return {"log": [result["log"] for result in results]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    asked = driver.invoke(app, {}, thread_id="t")["__interrupt__"]
    assert sorted(one.value for one in asked) == [0, 1, 2, 3, 4]
    result = driver.invoke(app, Command(resume={one.id: f"answer {one.value}" for one in asked}), thread_id="t")
    assert result["log"] == [[number, f"answer {number}"] for number in range(5)]


def test_parts_are_named_as_seen_from_the_graph_that_is_streamed(driver: Any) -> None:
    leaf = StateGraph(State).add_node("leaf", say("leaf")).add_edge(START, "leaf").compile()
    middle = StateGraph(State).add_node("inner", leaf).add_edge(START, "inner").compile()
    seen: list[Any] = []

    def call(state: Any) -> Any:
        seen.extend(middle.stream({"log": []}, subgraphs=True))
        return {"log": ["done"]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile()
    parts = driver.stream(app, {}, subgraphs=True)
    assert [(len(path), list(part)) for path, part in seen] == [(1, ["leaf"]), (0, ["inner"])]
    assert [(len(path), list(part)) for path, part in parts] == [(2, ["leaf"]), (1, ["inner"]), (0, ["call"])]


def test_a_stream_that_names_a_thread_of_its_own_is_a_run_of_its_own(driver: Any, saver: Any) -> None:
    child = asking().compile(saver)

    def call(state: Any) -> Any:
        list(child.stream({"log": []}, thread_id="own"))
        return {"log": ["went on"]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    assert driver.invoke(app, {}, thread_id="t")["log"] == ["went on"]
    assert child.get_state(thread_id="own").next == ("ask",)


@pytest.mark.parametrize("form", FORMS)
def test_no_limit_deadlocks_a_stream_inside_a_node(driver: Any, form: Any, within: Any) -> None:
    child = StateGraph(State).add_node("a", say("a")).add_node("b", say("b")).add_edge(START, "a").add_edge(START, "b")
    graph = calling(child.compile(), form)
    fan = StateGraph(State).add_node("plan", lambda s: [Send("sub", {}) for _ in range(3)], destinations=["sub"])
    fan.add_node("sub", graph.compile()).add_edge(START, "plan")
    result = within(lambda: driver.invoke(fan.compile(), {}, max_concurrency=1), seconds=60)
    assert len(result["log"]) == 6


def test_a_stream_that_the_node_leaves_is_given_up(driver: Any, saver: Any) -> None:
    child = asking().compile()

    def call(state: Any) -> Any:
        parts = child.stream({"log": []})
        first = next(parts)
        parts.close()
        return {"log": [first, interrupt("own")]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    assert [one.value for one in driver.invoke(app, {}, thread_id="t")["__interrupt__"]] == ["own"]
