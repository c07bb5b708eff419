"""Runs on threads with the same id in two workspaces neither see nor wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.work import wait_until

from statewright import START, Command, InMemorySaver, Runtime, StateGraph, append, interrupt
from statewright.runtime.lifecycle import thread_lease as thread_queue
from statewright.storage.sqlite import SqliteDatabase, SqliteSaver
from statewright.testing import FakeClock

THREAD = {"thread_id": "t"}
GUARD = 600.0
"""Seconds after which a test fails."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], append]


@pytest.fixture(params=["memory", "sqlite"])
def saver_of(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Makes a new saver for a workspace; all of them share their data."""
    if request.param == "memory":
        yield InMemorySaver().for_workspace
        return
    with SqliteDatabase(tmp_path / "runs.db") as database:
        yield lambda workspace: SqliteSaver(database, workspace=workspace)


class Gate:
    """A node that signals its start and ends when the test opens it."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()

    def node(self, state: State) -> State:
        self.begun.set()
        assert self.open.wait(GUARD)
        return {"log": ["through"]}


def app_of(node: Any, saver: Any, **options: Any) -> Any:
    return StateGraph(State).add_node("node", node).add_edge(START, "node").compile(saver, **options)


def start_thread(call: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def test_a_busy_thread_of_one_workspace_is_free_in_another(driver: Any, saver_of: Any) -> None:
    gate = Gate()
    held, free = app_of(gate.node, saver_of("one")), app_of(lambda s: {"log": ["free"]}, saver_of("two"))
    running = start_thread(lambda: driver.invoke(held, {"log": []}, THREAD))
    assert gate.begun.wait(GUARD)
    assert driver.invoke(free, {"log": []}, THREAD) == {"log": ["free"]}
    gate.open.set()
    running.join(GUARD)
    assert held.get_state(THREAD).values == {"log": ["through"]}
    assert free.get_state(THREAD).values == {"log": ["free"]}


def test_runs_on_savers_of_one_workspace_share_a_queue(driver: Any, saver_of: Any) -> None:
    """The clock stands still: a waiting run can only continue because the holder notifies it."""
    gate, clock = Gate(), FakeClock()
    held = app_of(gate.node, saver_of("one"), clock=clock)
    queued = app_of(lambda s: {"log": ["waited"]}, saver_of("one"), clock=clock)
    running = start_thread(lambda: driver.invoke(held, {"log": []}, THREAD))
    assert gate.begun.wait(GUARD)
    before = set(thread_queue._queues)
    waiting = start_thread(lambda: driver.invoke(queued, {"log": []}, THREAD, on_busy="enqueue"))
    wait_until(lambda: set(thread_queue._queues) - before)
    assert set(thread_queue._queues) - before == {(saver_of("one").scope, "t")}
    gate.open.set()
    for thread in (running, waiting):
        thread.join(GUARD)
        assert not thread.is_alive()
    assert queued.get_state(THREAD).values == {"log": ["through", "waited"]}


def test_a_question_is_answered_in_its_own_workspace(driver: Any, saver_of: Any) -> None:
    one, two = (app_of(lambda s: {"log": [interrupt("Why?")]}, saver_of(name)) for name in ("one", "two"))
    for app in (one, two):
        driver.invoke(app, {"log": []}, THREAD)
    assert driver.invoke(one, Command(resume="so"), THREAD) == {"log": ["so"]}
    assert [question.value for question in two.get_state(THREAD).interrupts] == ["Why?"]


def test_execution_info_has_the_workspace_of_the_thread(driver: Any, saver_of: Any) -> None:
    def node(state: State, runtime: Runtime[Any]) -> State:
        return {"log": [runtime.execution_info.workspace]}

    assert driver.invoke(app_of(node, saver_of("one")), {"log": []}, THREAD) == {"log": ["one"]}
    assert driver.invoke(app_of(node, None), {"log": []}) == {"log": ["default"]}
