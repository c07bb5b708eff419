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


def log_name(name: str) -> Any:
    return lambda state: {"log": [name]}


def graph_with_join(target: str) -> StateGraph:
    """Build a join that `a` always reaches, and `b` only if it is the target."""
    graph = StateGraph(State)
    for name in ("a", "b", "c", "other"):
        graph.add_node(name, log_name(name))
    graph.add_node("choose", lambda s: Command(goto=target), destinations=["b", "other"])
    return graph.add_edge(START, "a").add_edge(START, "choose").add_edge(["a", "b"], "c")


def test_a_half_reached_join_is_named_in_a_warning(driver: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = graph_with_join("other").compile()
    with pytest.warns(UnfinishedJoinWarning, match=r"\['a', 'b'\] -> 'c': 'a' arrived, 'b' did not"):
        driver.invoke(app, {})
    assert [record.levelno for record in caplog.records if "unfinished join" in record.message] == [logging.WARNING]


def test_a_half_reached_join_is_in_the_event_log(driver: Any) -> None:
    app = graph_with_join("other").compile(InMemorySaver())
    with pytest.warns(UnfinishedJoinWarning):
        driver.invoke(app, {}, thread_id="t")
    assert app.get_events(thread_id="t")[-1].data == {
        "status": "completed",
        "unfinished_joins": ["['a', 'b'] -> 'c': 'a' arrived, 'b' did not"],
    }
    assert app.get_state(thread_id="t").next == (), "everything was saved before the warning"


def test_completed_or_stopped_joins_cause_no_warning(driver: Any) -> None:
    assert driver.invoke(graph_with_join("b").compile(), {})["log"] == ["a", "b", "c"]
    graph = graph_with_join("other")
    graph.add_node("stop", lambda s: Command(goto=STOP), destinations=[STOP]).add_edge("other", "stop")
    assert driver.invoke(graph.compile(), {})["log"] == ["a", "other"]


def test_a_paused_run_causes_no_warning_about_its_joins(driver: Any) -> None:
    app = graph_with_join("other").compile(InMemorySaver())
    driver.invoke(app, {}, thread_id="t", interrupt_before=["other"])
    with pytest.warns(UnfinishedJoinWarning):
        driver.invoke(app, None, thread_id="t")


def test_a_half_reached_join_of_a_subgraph_is_named(driver: Any) -> None:
    child = graph_with_join("other").compile(name="inner")
    app = StateGraph(State).add_node("sub", child).add_edge(START, "sub").add_edge("sub", END).compile()
    with pytest.warns(UnfinishedJoinWarning, match="Graph 'inner' ended"):
        driver.invoke(app, {})


def test_an_unanswerable_question_causes_one_warning_per_graph(driver: Any) -> None:
    graph = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask")
    app = graph.compile()
    with pytest.warns(NoCheckpointerWarning, match=r"cannot be resumed without a checkpointer"):
        result = driver.invoke(app, {})
    driver.invoke(app, {})  # a second warning would be an error here
    assert [question.value for question in result["__interrupt__"]] == ["?"]
    with pytest.warns(NoCheckpointerWarning):
        driver.invoke(graph.compile(), {})


def test_a_question_in_an_unsaved_subgraph_of_a_saved_run_causes_no_warning(driver: Any) -> None:
    child = StateGraph(State).add_node("ask", lambda s: {"log": [interrupt("?")]}).add_edge(START, "ask").compile()
    app = StateGraph(State).add_node("sub", child, memory="none").add_edge(START, "sub").compile(InMemorySaver())
    driver.invoke(app, {}, thread_id="t")
    assert driver.invoke(app, Command(resume="yes"), thread_id="t")["log"] == ["yes"]
