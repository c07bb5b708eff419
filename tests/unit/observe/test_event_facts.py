"""The graphs, runs and tasks of events."""

from __future__ import annotations

from typing import Any

from statewright import START, StateGraph, append
from statewright.events import Event
from statewright.observe.event_facts import graph_name, run_key, task_key
from statewright.testing import RecordingInstrument


def recorded() -> RecordingInstrument:
    record = RecordingInstrument()
    inner = StateGraph({"x": append}).add_node("n", lambda state: {"x": [2]}).add_edge(START, "n").compile(name="inner")
    outer: Any = StateGraph({"x": append})
    for name in ("a", "b"):
        outer.add_node(name, inner).add_edge(START, name)
    outer.compile(name="outer", instruments=[record]).invoke({})
    return record


def test_events_of_one_task_have_one_key_and_other_tasks_another() -> None:
    record = recorded()
    started = [task_key(event) for event in record.of_kind("task_started")]
    assert len(set(started)) == len(started) == 4
    assert set(started) == {task_key(event) for event in record.of_kind("task_finished")}


def test_a_call_of_a_subgraph_is_a_run_of_its_own() -> None:
    record = recorded()
    runs = [(graph_name(event), run_key(event)) for event in record.of_kind("run_started")]
    assert sorted(graph for graph, _ in runs) == ["inner", "inner", "outer"]
    assert len({key for _, key in runs}) == 3


def test_an_event_from_nowhere_has_keys_too() -> None:
    event = Event("model_called", {}, run_id="r")
    assert (graph_name(event), task_key(event)) == ("", ("r", None, ""))
