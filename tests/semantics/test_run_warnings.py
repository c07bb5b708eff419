"""Warnings at the end of a run: joins that can no longer complete, questions that cannot be answered."""

from __future__ import annotations

import logging
from typing import Annotated, Any, TypedDict

import pytest

from statewright import END, START, STOP, Command, InMemorySaver, StateGraph, interrupt
from statewright.channels import append
from statewright.errors import NoCheckpointerWarning, UnfinishedJoinWarning


class State(TypedDict, total=False):
    log: Annotated[list[str], append]


def say(name: str) -> Any:
    return lambda state: {"log": [name]}


def choosing(way: str) -> StateGraph:
    """`a` always arrives at the join, `b` only if the way leads there."""
    graph = StateGraph(State)
    for name in ("a", "b", "c", "other"):
        graph.add_node(name, say(name))
    graph.add_node("choose", lambda s: Command(goto=way), destinations=["b", "other"])
    return graph.add_edge(START, "a").add_edge(START, "choose").add_edge(["a", "b"], "c")


def test_a_join_that_is_left_half_reached_is_named(driver: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = choosing("other").compile()
    with pytest.warns(UnfinishedJoinWarning, match=r"\['a', 'b'\] -> 'c': 'a' arrived, 'b' did not"):
        driver.invoke(app, {})
    assert [one.levelno for one in caplog.records if "unfinished join" in one.message] == [logging.WARNING]


def test_it_is_in_the_log_of_the_run(driver: Any) -> None:
    app = choosing("other").compile(InMemorySaver())
    with pytest.warns(UnfinishedJoinWarning):
        driver.invoke(app, {}, thread_id="t")
    assert app.get_events(thread_id="t")[-1].data == {
        "status": "completed",
        "unfinished_joins": ["['a', 'b'] -> 'c': 'a' arrived, 'b' did not"],
    }
    assert app.get_state(thread_id="t").next == (), "everything was saved before the warning"


def test_a_join_that_is_completed_or_stopped_on_purpose_is_not_named(driver: Any) -> None:
    assert driver.invoke(choosing("b").compile(), {})["log"] == ["a", "b", "c"]
    graph = choosing("other")
    graph.add_node("stop", lambda s: Command(goto=STOP), destinations=[STOP]).add_edge("other", "stop")
    assert driver.invoke(graph.compile(), {})["log"] == ["a", "other"]


def test_a_run_that_pauses_or_fails_has_not_left_its_joins(driver: Any) -> None:
    app = choosing("other").compile(InMemorySaver())
    driver.invoke(app, {}, thread_id="t", interrupt_before=["other"])
    with pytest.warns(UnfinishedJoinWarning):
        driver.invoke(app, None, thread_id="t")


def test_a_join_of_a_subgraph_is_named_too(driver: Any) -> None:
    child = choosing("other").compile(name="inner")
    app = StateGraph(State).add_node("sub", child).add_edge(START, "sub").add_edge("sub", END).compile()
    with pytest.warns(UnfinishedJoinWarning, match="Graph 'inner' ended"):
        driver.invoke(app, {})


def test_a_question_that_cannot_be_answered_causes_one_warning_per_graph(driver: Any) -> None:
    graph = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = graph.compile()
    with pytest.warns(NoCheckpointerWarning, match=r"cannot be resumed without a checkpointer"):
        asked = driver.invoke(app, {})
    driver.invoke(app, {})  # a second warning would be an error here
    assert [one.value for one in asked["__interrupt__"]] == ["?"]
    with pytest.warns(NoCheckpointerWarning):
        driver.invoke(graph.compile(), {})


def test_a_question_of_a_saved_run_causes_no_warning_whatever_its_subgraph_remembers(driver: Any) -> None:
    child = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask").compile()
    app = StateGraph(State).add_node("sub", child, memory="none").add_edge(START, "sub").compile(InMemorySaver())
    driver.invoke(app, {}, thread_id="t")
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["yes"]
