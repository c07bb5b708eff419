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


class RefusalRecorder(Instrument):
    """Records the refusals that events report."""

    def __init__(self) -> None:
        self._refusals = RefusedUpdates()
        self.refusals: list[tuple[str, str]] = []

    def _record(self, event: Event) -> None:
        result = self._refusals.find(event)
        if result is not None:
            self.refusals.append((result[0], result[1].code))

    on_task_finished = on_run_finished = on_attempt_failed = on_run_broken_off = _record


def find_refusals(graph: StateGraph, saver: Any = None, value: Any = None) -> list[tuple[str, str]]:
    """Run the graph with both drivers, which must report the same refusals, and return these."""
    result: list[list[tuple[str, str]]] = []
    for drives_async in (False, True):
        recorder = RefusalRecorder()
        app = graph.compile(saver and saver(), instruments=[recorder], debug=True, unknown_keys="error")
        options: dict[str, Any] = {"thread_id": "t"} if saver else {}
        with suppress(RunError):
            if drives_async:
                asyncio.run(app.ainvoke(value or {"x": 1}, **options))
            else:
                app.invoke(value or {"x": 1}, **options)
        result.append(recorder.refusals)
    assert result[0] == result[1]
    return result[0]


def single(node: Any, **options: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node, **options).add_edge(START, "node")


def mutate_state(state: Any) -> None:
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
def test_an_invalid_result_of_a_node_is_a_refusal(node: Any, code: str, saver: Any) -> None:
    assert find_refusals(single(node), saver) == [("node", code)]


def test_a_conditional_edge_to_an_unknown_node_is_a_refusal() -> None:
    graph = StateGraph(State).add_node("node", lambda state: None).add_edge(START, "node")
    graph.add_conditional_edges("node", lambda state: "nowhere", {"end": END})
    assert find_refusals(graph) == [("node", "SW-unknown-target")]


def test_state_mutated_in_place_is_a_refusal() -> None:
    graph = StateGraph({"x": list}).add_node("node", mutate_state).add_edge(START, "node")
    assert find_refusals(graph, value={"x": [1]}) == [("node", "SW-mutated-state")]


@pytest.mark.parametrize("saver", [None, InMemorySaver])
def test_conflicting_writes_are_found_at_the_end_of_the_run(saver: Any) -> None:
    graph = StateGraph(State)
    for name in "ba":
        graph.add_node(name, lambda state: {"x": 2}).add_edge(START, name)
    assert find_refusals(graph, saver) == [("a+b", "SW-conflicting-writes")]


def test_a_refused_update_of_a_subgraph_is_found_once() -> None:
    inner = single(lambda state: 7).compile()
    outer = StateGraph(State).add_node("outer", inner).add_edge(START, "outer")
    assert find_refusals(outer) == [("node", "SW-invalid-update-error")]


def test_each_refused_attempt_is_counted() -> None:
    policy = RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False, retry_on=RunError)
    assert find_refusals(single(lambda state: 7, retry_policy=policy)) == [("node", "SW-invalid-update-error")] * 3


def test_a_refusal_passed_to_an_error_handler_is_counted() -> None:
    assert find_refusals(single(lambda state: 7, error_handler=lambda error: None)) == [
        ("node", "SW-invalid-update-error")
    ]


def test_a_refused_input_has_no_node() -> None:
    assert find_refusals(single(lambda state: None), value={"unknown": 1}) == [("", "SW-invalid-update-error")]


def failing(state: Any) -> None:
    raise ValueError("a node's own")


def test_other_errors_are_not_refusals() -> None:
    graph = single(failing, error_handler=lambda error: None)
    assert find_refusals(graph) == []
    assert RefusedUpdates().find(Event("custom", (1, 2))) is None
