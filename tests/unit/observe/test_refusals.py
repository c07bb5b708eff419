"""Refused updates are found once, however often they are reported."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypedDict

import pytest

from statewright import END, START, Command, InMemorySaver, Instrument, RetryPolicy, StateGraph
from statewright.errors import RunError
from statewright.events import Event
from statewright.observe.metrics import RefusedUpdates


class State(TypedDict, total=False):
    x: int


class Found(Instrument):
    """Keeps what every event that may tell of a refusal tells of it."""

    def __init__(self) -> None:
        self._refusals = RefusedUpdates()
        self.found: list[tuple[str, str]] = []

    def _look(self, event: Event) -> None:
        result = self._refusals.find(event)
        if result is not None:
            self.found.append((result[0], result[1].code))

    on_task_finished = on_run_finished = on_attempt_failed = on_run_broken_off = _look


def found_in(graph: StateGraph, saver: Any = None, given: Any = None) -> list[tuple[str, str]]:
    """What is found when the graph runs, which is the same from both drivers."""
    result: list[list[tuple[str, str]]] = []
    for runs_async in (False, True):
        heard = Found()
        app = graph.compile(saver and saver(), instruments=[heard], debug=True, unknown_keys="error")
        options: dict[str, Any] = {"thread_id": "t"} if saver else {}
        with suppress(RunError):
            if runs_async:
                asyncio.run(app.ainvoke(given or {"x": 1}, **options))
            else:
                app.invoke(given or {"x": 1}, **options)
        result.append(heard.found)
    assert result[0] == result[1]
    return result[0]


def single(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


def in_place(state: Any) -> None:
    state["x"].append(1)


@pytest.mark.parametrize("saver", [None, InMemorySaver])
@pytest.mark.parametrize(
    ("node", "code"),
    [
        (lambda state: 7, "SW-invalid-update-error"),
        (lambda state: {"unknown": 1}, "SW-invalid-update-error"),
        (lambda state: Command(goto="nowhere"), "SW-unknown-target"),
    ],
)
def test_an_answer_that_no_update_can_be_made_of(node: Any, code: str, saver: Any) -> None:
    assert found_in(single(node), saver) == [("node", code)]


def test_a_conditional_edge_that_leads_nowhere() -> None:
    graph = StateGraph(State).add_node("node", lambda state: None).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda state: "nowhere", {"end": END})
    assert found_in(graph) == [("node", "SW-unknown-target")]


def test_state_that_was_changed_in_place() -> None:
    graph = StateGraph({"x": list}).add_node("node", in_place).add_edge(START, "node")
    assert found_in(graph, given={"x": [1]}) == [("node", "SW-mutated-state")]


@pytest.mark.parametrize("saver", [None, InMemorySaver])
def test_two_writers_of_one_value_which_only_the_end_of_the_run_tells(saver: Any) -> None:
    graph = StateGraph(State)
    for name in "ba":
        graph.add_node(name, lambda state: {"x": 2}).add_edge(START, name)
    assert found_in(graph, saver) == [("a+b", "SW-conflicting-writes")]


def test_a_refused_update_of_a_subgraph_is_found_once() -> None:
    inner = single(lambda state: 7).compile()
    outer = StateGraph(State).add_node("outer", inner).add_edge(START, "outer")
    heard = found_in(outer)
    assert heard == [("node", "SW-invalid-update-error")]


def test_each_attempt_is_a_refusal_of_its_own() -> None:
    policy = RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False, retry_on=RunError)
    assert found_in(single(lambda state: 7, retry_policy=policy)) == [("node", "SW-invalid-update-error")] * 3


def test_a_refusal_that_a_handler_made_good_counts_too() -> None:
    assert found_in(single(lambda state: 7, error_handler=lambda error: None)) == [("node", "SW-invalid-update-error")]


def test_input_that_was_refused_concerns_no_node() -> None:
    assert found_in(single(lambda state: None), given={"unknown": 1}) == [("", "SW-invalid-update-error")]


def failing(state: Any) -> None:
    raise ValueError("a node's own")


def test_other_errors_are_none() -> None:
    graph = single(failing, error_handler=lambda error: None)
    assert found_in(graph) == []
    assert RefusedUpdates().find(Event("custom", (1, 2))) is None
