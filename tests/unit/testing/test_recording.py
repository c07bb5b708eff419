"""An instrument that records the events it receives."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument
from statewright.testing import RecordingInstrument


class State(TypedDict, total=False):
    n: int


def app(record: RecordingInstrument, saver: InMemorySaver | None = None) -> Any:
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_node("b", lambda state: {"n": 2})
    return graph.add_edge(START, "a").add_edge("a", "b").compile(saver, instruments=[record])


def test_events_are_recorded_in_order() -> None:
    record = RecordingInstrument()
    app(record, InMemorySaver()).invoke({}, thread_id="1")
    step = ["superstep_started", "task_started", "task_ended", "task_finished", "committed"]
    assert record.kinds == ["run_started", "committed", *step, *step, "run_finished"]


def test_sync_and_async_runs_emit_the_same_events() -> None:
    record, other = RecordingInstrument(), RecordingInstrument()
    app(record).invoke({})
    asyncio.run(app(other).ainvoke({}))
    assert record.kinds == other.kinds


def test_events_can_be_selected_by_kind() -> None:
    record = RecordingInstrument()
    app(record).invoke({})
    assert [event.node for event in record.of_kind("task_started")] == ["a", "b"]
    assert record.of_kind("committed") == []


def test_it_records_every_kind_of_event() -> None:
    overridden = [name for name in vars(RecordingInstrument) if name.startswith("on_")]
    assert sorted(overridden) == sorted(METHOD_BY_KIND.values())
    assert sorted(name for name in vars(Instrument) if name.startswith("on_")) == sorted(overridden)


def test_a_new_instrument_is_empty() -> None:
    assert (RecordingInstrument().events, RecordingInstrument().kinds) == ([], [])


def test_a_failed_run_is_recorded_to_its_end() -> None:
    def fail(state: State) -> State:
        raise ValueError("no luck")

    record = RecordingInstrument()
    graph = StateGraph(State).add_node("a", fail).add_edge(START, "a").compile(instruments=[record])
    with pytest.raises(ValueError, match="no luck"):
        graph.invoke({})
    task = ["task_started", "task_ended", "task_finished"]
    assert record.kinds == ["run_started", "superstep_started", *task, "run_finished"]
    assert record.events[-1].data.status == "failed"
