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
    """What ends the process, as far as a test can."""


class DyingClock(FakeClock):
    """A clock on which the process dies when it should wait."""

    def wait(self, woken: Any, seconds: float) -> None:
        raise Crash


class Waiting(FakeClock):
    """A clock that remembers for how long was waited, and does not let anybody wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, woken: Any, seconds: float) -> None:
        self.waited.append(seconds)
        self.advance(seconds)


def failing(times: int) -> StateGraph:
    """A node that fails some times and then succeeds."""
    left = iter(range(times))

    def node(state: State) -> State:
        for number in left:
            raise ConnectionError(str(number))
        return {"log": ["done"]}

    policy = RetryPolicy(max_attempts=5, initial_interval=100, backoff_factor=2, max_interval=1000, jitter=False)
    return StateGraph(State).add_node("node", node, retry_policy=policy).add_edge(START, "node")


def test_5_3_attempts_and_back_off_survive_a_crash(saver: Any) -> None:
    graph = failing(2)
    first = DyingClock()
    with pytest.raises(Crash):
        graph.compile(saver, clock=first).invoke({}, thread_id="t")

    later = Waiting()
    later.advance(timedelta(seconds=70))
    assert graph.compile(saver, clock=later).invoke(None, thread_id="t") == {"log": ["done"]}
    assert later.waited == [30, 200]  # what was left of the 100 seconds before attempt 2, and those before attempt 3


def test_5_3_back_off_that_is_over_is_not_waited_for(saver: Any) -> None:
    graph = failing(1)
    with pytest.raises(Crash):
        graph.compile(saver, clock=DyingClock()).invoke({}, thread_id="t")
    later = Waiting()
    later.advance(timedelta(hours=1))
    assert graph.compile(saver, clock=later).invoke(None, thread_id="t") == {"log": ["done"]}
    assert later.waited == []


def test_6_4_an_app_lists_compares_copies_prunes_and_forgets_threads(saver: Any) -> None:
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
