"""A graph that a node streams, iterates or batches is part of the task, like a graph that the node invokes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, Command, Send, StateGraph, interrupt
from statewright.channels import append


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


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
    """A graph with a node that runs the child in one of the forms."""
    if asyncio.iscoroutinefunction(form):

        async def call(state: Any) -> Any:
            return await form(child, {"log": []})

        return StateGraph(State).add_node("call", call, **options).add_edge(START, "call")
    node = lambda state: form(child, {"log": []})  # noqa: E731
    return StateGraph(State).add_node("call", node, **options).add_edge(START, "call")


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_any_form_reports_its_questions_and_continues(driver: Any, saver: Any, form: Any, depth: int) -> None:
    graph = asking()
    for _ in range(depth):
        graph = calling(graph.compile(), form)
    app = graph.compile(saver)
    questions = driver.invoke(app, {}, thread_id="t")["__interrupt__"]
    assert [question.value for question in questions] == ["?"]
    assert len(list(saver.namespaces("t"))) == 1 + depth, "the call is saved in the thread of its caller"
    result = driver.invoke(app, Command(resume="yes"), thread_id="t")["log"]
    if form is not by_updates:
        assert result == ["before", "yes", "after"]
    elif depth == 1:
        assert result == ["ask", "after"], "nodes before the question do not run again"
    assert list(saver.namespaces("t")) == [""], "the call is removed with the task that made it"


@pytest.mark.parametrize("form", [form for form in FORMS if form is not by_updates])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_finished_call_returns_its_saved_result(driver: Any, saver: Any, form: Any, durability: str) -> None:
    ran: list[str] = []

    def note(name: str) -> Any:
        return lambda state: ran.append(name) or {"log": [name]}

    child = (
        StateGraph(State).add_sequence([("one", note("one")), ("two", note("two"))]).add_edge(START, "one").compile()
    )
    graph = calling(child, asking_after(form))
    app = graph.compile(saver)
    driver.invoke(app, {}, thread_id="t", durability=durability)
    driver.invoke(app, Command(resume="a"), thread_id="t", durability=durability)
    assert driver.invoke(app, Command(resume="b"), thread_id="t", durability=durability)["log"] == [
        "one",
        "two",
        "a",
        "b",
    ]
    assert ran == ["one", "two"]


def asking_after(form: Any) -> Any:
    """The form in a node that asks two questions after the call."""
    if asyncio.iscoroutinefunction(form):

        async def acall(child: Any, state: Any) -> Any:
            result = await form(child, state)
            return {"log": [*result["log"], interrupt("first"), interrupt("second")]}

        return acall
    return lambda child, state: {"log": [*form(child, state)["log"], interrupt("first"), interrupt("second")]}


CONTINUED: dict[str, tuple[Any, Any]] = {
    "values": ({"log": ["before"]}, {"log": ["before", "yes", "after"]}),
    "v2": ("values", "values"),
    "output_keys": (["before"], ["before", "yes", "after"]),
    "checkpoints": (["ask"], []),
    "debug": (["ask"], []),
}


@pytest.mark.parametrize("view", CONTINUED)
def test_the_stream_of_a_resumed_call_begins_with_its_current_state(driver: Any, saver: Any, view: str) -> None:
    options: dict[str, Any] = {"stream_mode": view}
    if view == "v2":
        options = {"stream_mode": "values", "version": "v2"}
    if view == "output_keys":
        options = {"stream_mode": "values", "output_keys": "log"}

    def shown(part: Any) -> Any:
        if view == "v2":
            return part["type"]
        if view == "debug":
            return part["payload"]["next"] if part["type"] == "checkpoint" else None
        return part["next"] if view == "checkpoints" else part

    child, seen = asking().compile(), list[list[Any]]()

    def call(state: Any) -> Any:
        parts = list[Any]()
        seen.append(parts)
        for part in child.stream({}, **options):
            parts.append(shown(part))
        return {"log": [interrupt("own")]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    for input_ in ({}, Command(resume="yes"), Command(resume="yes")):
        driver.invoke(app, input_, thread_id="t")
    current, end = CONTINUED[view]
    assert (seen[1][0], seen[2]) == (current, [end])


def test_the_stream_of_a_finished_call_has_no_updates(driver: Any, saver: Any) -> None:
    child, seen = asking().compile(), list[Any]()

    def call(state: Any) -> Any:
        seen.append([*child.stream({}), *child.stream({}, stream_mode="updates", call_key="another")])
        return {"log": [interrupt("own")]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    questions = driver.invoke(app, {}, thread_id="t")["__interrupt__"]
    while questions:
        questions = driver.invoke(app, Command(resume="yes"), thread_id="t").get("__interrupt__", ())
    assert seen[-1] == []


def test_streaming_the_parent_does_not_repeat_the_state_of_a_call(driver: Any, saver: Any) -> None:
    def call(state: Any) -> Any:
        return {"log": [*by_stream(child, {})["log"], interrupt("own")]}

    child = StateGraph(State).add_node("in", say("in")).add_edge(START, "in").compile()
    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    driver.invoke(app, {}, thread_id="t")
    parts = driver.stream(app, Command(resume="a"), thread_id="t", stream_mode="values", subgraphs=True)
    assert parts == [((), {"log": ["in", "a"]})]


def test_a_halted_iteration_halts_at_the_same_step_again(driver: Any, saver: Any) -> None:
    child, seen = asking().compile(), list[Any]()

    def call(state: Any) -> Any:
        with child.iter({}, halt=lambda step: "ask" in step.next) as steps:
            seen.append([(step.nodes, step.next, step.values) for step in steps])
        return {"log": [interrupt("own")]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    driver.invoke(app, {}, thread_id="t")
    assert driver.invoke(app, Command(resume="a"), thread_id="t")["log"] == ["a"]
    state = {"log": ["before"]}
    assert seen == [[(("before",), ("ask",), state)], [((), ("ask",), state)]]


@pytest.mark.parametrize("form", FORMS)
def test_errors_of_a_call_in_any_form_are_raised_by_the_node(driver: Any, form: Any) -> None:
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


def test_questions_of_a_batch_are_reported_together_and_answered_separately(driver: Any, saver: Any) -> None:
    ask = (
        StateGraph(State).add_node("ask", lambda s: {"log": [interrupt(s["log"][0])]}).add_edge(START, "ask").compile()
    )

    def call(state: Any) -> Any:
        results = ask.batch([{"log": [number]} for number in range(5)])
        return {"log": [result["log"] for result in results]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    questions = driver.invoke(app, {}, thread_id="t")["__interrupt__"]
    assert sorted(question.value for question in questions) == [0, 1, 2, 3, 4]
    result = driver.invoke(
        app, Command(resume={question.id: f"answer {question.value}" for question in questions}), thread_id="t"
    )
    assert result["log"] == [[number, f"answer {number}"] for number in range(5)]


def test_namespaces_of_parts_are_relative_to_the_streamed_graph(driver: Any) -> None:
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


def test_a_stream_with_a_thread_id_is_a_separate_run(driver: Any, saver: Any) -> None:
    child = asking().compile(saver)

    def call(state: Any) -> Any:
        list(child.stream({"log": []}, thread_id="own"))
        return {"log": ["went on"]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    assert driver.invoke(app, {}, thread_id="t")["log"] == ["went on"]
    assert child.get_state(thread_id="own").next == ("ask",)


@pytest.mark.parametrize("form", FORMS)
def test_max_concurrency_does_not_deadlock_a_call_in_any_form(driver: Any, form: Any, within: Any) -> None:
    child = StateGraph(State).add_node("a", say("a")).add_node("b", say("b")).add_edge(START, "a").add_edge(START, "b")
    graph = calling(child.compile(), form)
    fan = StateGraph(State).add_node("plan", lambda s: [Send("sub", {}) for _ in range(3)], destinations=["sub"])
    fan.add_node("sub", graph.compile()).add_edge(START, "plan")
    result = within(lambda: driver.invoke(fan.compile(), {}, max_concurrency=1), seconds=60)
    assert len(result["log"]) == 6


def test_a_node_can_close_a_stream_before_its_end(driver: Any, saver: Any) -> None:
    child = asking().compile()

    def call(state: Any) -> Any:
        parts = child.stream({"log": []})
        first = next(parts)
        parts.close()
        return {"log": [first, interrupt("own")]}

    app = StateGraph(State).add_node("call", call).add_edge(START, "call").compile(saver)
    assert [question.value for question in driver.invoke(app, {}, thread_id="t")["__interrupt__"]] == ["own"]
