"""Attempts and backoff across crashes (spec/graph.md, 5.3), and operations of an app on threads (6.4)."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest

from statewright import START, RetryPolicy, StateGraph, append
from statewright.checkpoint import PrunePolicy
from statewright.errors import CheckpointConflict, InvalidConfig
from statewright.testing import FakeClock


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


class Crash(BaseException):
    """Simulates the death of the process."""


class DyingClock(FakeClock):
    """A clock that simulates the death of the process when it should wait."""

    def wait(self, woken: Any, seconds: float) -> None:
        raise Crash


class RecordingClock(FakeClock):
    """A clock that records waits, and advances instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, woken: Any, seconds: float) -> None:
        self.waited.append(seconds)
        self.advance(seconds)


def failing_graph(times: int) -> StateGraph:
    """Build a graph of a node that fails a few times and then succeeds."""
    remaining = iter(range(times))

    def node(state: State) -> State:
        for number in remaining:
            raise ConnectionError(str(number))
        return {"log": ["done"]}

    policy = RetryPolicy(max_attempts=5, initial_interval=100, backoff_factor=2, max_interval=1000, jitter=False)
    return StateGraph(State).add_node("node", node, retry_policy=policy).add_edge(START, "node")


def test_5_3_attempts_and_retry_delays_survive_a_crash(saver: Any) -> None:
    graph = failing_graph(2)
    dying_clock = DyingClock()
    with pytest.raises(Crash):
        graph.compile(saver, clock=dying_clock).invoke({}, thread_id="t")

    recording_clock = RecordingClock()
    recording_clock.advance(timedelta(seconds=70))
    assert graph.compile(saver, clock=recording_clock).invoke(None, thread_id="t") == {"log": ["done"]}
    assert recording_clock.waited == [
        30,
        200,
    ]  # the rest of the 100 seconds before attempt 2, and the 200 seconds before attempt 3


def test_5_3_a_retry_delay_that_has_passed_is_not_repeated(saver: Any) -> None:
    graph = failing_graph(1)
    with pytest.raises(Crash):
        graph.compile(saver, clock=DyingClock()).invoke({}, thread_id="t")
    recording_clock = RecordingClock()
    recording_clock.advance(timedelta(hours=1))
    assert graph.compile(saver, clock=recording_clock).invoke(None, thread_id="t") == {"log": ["done"]}
    assert recording_clock.waited == []


def test_6_4_an_app_lists_compares_copies_prunes_and_deletes_threads(saver: Any) -> None:
    app = StateGraph(State).add_node("a", lambda state: {"log": [1]}).add_edge(START, "a").compile(saver)
    app.invoke({}, thread_id="t-1")
    app.copy_thread("t-1", "t-2")
    app.invoke({}, thread_id="t-2")
    assert [entry.thread_id for entry in app.threads(prefix="t-")] == ["t-2", "t-1"]
    assert app.diff({"thread_id": "t-1"}, {"thread_id": "t-2"}) == {"log": ([1], [1, 1])}
    with pytest.raises(CheckpointConflict):
        app.copy_thread("t-1", "t-2")
    assert app.prune(PrunePolicy(keep_last=1), thread_id="t-2", dry_run=True).checkpoints == 3
    assert app.prune(PrunePolicy(keep_last=1)) == (2, 4)
    assert [snapshot.values for snapshot in app.get_state_history(thread_id="t-2")] == [{"log": [1, 1]}]
    app.delete_thread("t-1")
    assert [entry.thread_id for entry in app.threads()] == ["t-2"]
    with pytest.raises(InvalidConfig, match="checkpointer"):
        StateGraph(State).add_node("a", lambda state: None).add_edge(START, "a").compile().threads()
