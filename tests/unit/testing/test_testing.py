"""What tests of other programs are given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypedDict

import pytest

from statewright import START, InMemorySaver, StateGraph
from statewright.clock import Clock
from statewright.testing import FakeClock, RecordingInstrument


class State(TypedDict, total=False):
    n: int


def test_a_fake_clock_moves_only_when_told() -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    assert isinstance(clock, Clock)
    clock.advance(2.5)
    clock.advance(timedelta(minutes=1))
    assert (clock.now(), clock.monotonic()) == (datetime(2030, 1, 1, 0, 1, 2, 500_000, tzinfo=UTC), 62.5)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


def test_commits_carry_the_time_of_the_clock() -> None:
    clock = FakeClock()
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    app = graph.compile(InMemorySaver(), clock=clock)
    app.invoke({}, thread_id="1")
    clock.advance(60)
    app.invoke({}, thread_id="1")
    times = [one.created_at for one in app.get_state_history(thread_id="1")]
    assert [(time - times[-1]).total_seconds() for time in times if time and times[-1]] == [60, 60, 0, 0]


def test_a_recording_instrument_tells_what_happened_in_order() -> None:
    record = RecordingInstrument()
    graph = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_edge(START, "a")
    graph.compile(InMemorySaver(), instruments=[record]).invoke({}, thread_id="1")
    assert record.kinds == [
        "run_started",
        "committed",
        "superstep_started",
        "task_started",
        "task_finished",
        "committed",
        "run_finished",
    ]
    assert [event.node for event in record.of_kind("task_started")] == ["a"]
