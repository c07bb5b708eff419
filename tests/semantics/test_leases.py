"""Part I section 6.5: how long a run owns its thread, takeover, and work while the thread is owned."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.scheduler import GUARD

from statewright import START, Command, InMemorySaver, RunControl, StateGraph, append, interrupt
from statewright.errors import (
    GraphDrained,
    InvalidConfig,
    InvalidUpdateError,
    LeaseLost,
    RunCancelled,
    StorageUnavailable,
    ThreadBusy,
)
from statewright.futures import LightFuture, resolve
from statewright.runtime import Instrument
from statewright.storage.sqlite import SqliteSaver
from statewright.testing import FakeClock

THREAD = {"thread_id": "t"}


class State(TypedDict, total=False):
    x: int
    log: Annotated[list[Any], append]


class Holder:
    """A run that stands still in its node until it is let."""

    def __init__(self, saver: Any, **options: Any) -> None:
        self.begun, self.open = threading.Event(), threading.Event()
        self.app = graph_of(self._node).compile(saver, **options)
        self.outcome: list[Any] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    async def _node(self, state: State) -> dict[str, Any]:
        if state["x"] == 1:
            self.begun.set()
            while not self.open.is_set():
                await asyncio.sleep(0.001)
        return {"log": [state["x"]]}

    def _run(self) -> None:
        try:
            self.outcome.append(self.app.invoke({"x": 1}, THREAD))
        except Exception as error:
            self.outcome.append(error)

    def start(self) -> None:
        self.thread.start()
        assert self.begun.wait(GUARD)

    def end(self) -> Any:
        self.open.set()
        self.thread.join(GUARD)
        return self.outcome[0]


def graph_of(node: Any) -> StateGraph:
    return StateGraph(State).add_node("node", node).add_edge(START, "node")


@pytest.fixture
def holder(saver: Any) -> Any:
    holder = Holder(saver)
    holder.start()
    yield holder
    holder.end()


# -- how long


@pytest.mark.parametrize(
    ("of_saver", "of_graph", "seconds"),
    [(None, None, 60), (5, None, 5), (5, 2.5, 2.5), (None, timedelta(minutes=2), 120)],
)
def test_the_lease_is_that_of_the_graph_else_that_of_its_saver(
    tmp_path: Path, of_saver: Any, of_graph: Any, seconds: float
) -> None:
    clock = FakeClock()
    for saver in (InMemorySaver(lease=of_saver), SqliteSaver(tmp_path / "t.db", lease=of_saver)):
        with saver:
            holder = Holder(saver, clock=clock, lease=of_graph)
            holder.start()
            lease = saver.lease("t")
            assert lease is not None
            assert lease.until - clock.now() == timedelta(seconds=seconds)  # type: ignore[union-attr]
            clock.advance(seconds / 3)  # it is renewed at a third, while its node runs
            assert saver.lease("t").until - clock.now() == timedelta(seconds=seconds)  # type: ignore[union-attr]
            holder.end()
            assert saver.lease("t") is None


@pytest.mark.parametrize("lease", [0, -1, timedelta(0), float("nan")])
def test_a_lease_that_is_not_a_duration_is_refused(lease: Any) -> None:
    with pytest.raises(InvalidConfig, match="lease="):
        InMemorySaver(lease=lease)
    with pytest.raises(InvalidConfig, match="lease="):
        graph_of(lambda state: None).compile(InMemorySaver(), lease=lease)


# -- who is gone


def test_a_thread_can_be_taken_from_its_holder(driver: Any, holder: Holder) -> None:
    other = graph_of(lambda state: {"log": [state["x"]]}).compile(holder.app.checkpointer)
    with pytest.raises(ThreadBusy):
        driver.invoke(other, {"x": 2}, THREAD)

    other.release("t")
    assert driver.invoke(other, {"x": 2}, THREAD)["log"] == [2]
    assert isinstance(holder.end(), LeaseLost)
    other.release("t")  # nothing holds it
    other.release("unknown")


def test_a_thread_whose_holder_was_killed_continues_at_once(driver: Any, tmp_path: Path) -> None:
    script = """
import os, sys
from tests.semantics.test_leases import graph_of
from statewright.storage.sqlite import SqliteSaver
def node(state):
    print("begun", flush=True)
    sys.stdin.readline()
graph_of(node).compile(SqliteSaver(sys.argv[1])).invoke({"x": 1}, thread_id="t", durability="sync")
"""
    path = tmp_path / "t.db"
    root = Path(__file__).parents[2]
    with (
        subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        ) as process,
        SqliteSaver(path) as saver,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver)
        with pytest.raises(ThreadBusy):
            driver.invoke(app, {"x": 2}, THREAD)
        process.kill()
        process.wait(GUARD)
        assert driver.invoke(app, None, THREAD) == {"x": 1, "log": [1]}


@pytest.mark.parametrize("method", ["commit", "save_results", "renew"])
def test_a_run_that_could_not_write_its_end_keeps_its_own_process_from_nothing(
    driver: Any, saver: Any, method: str
) -> None:
    """A full disk, say: its lease stays behind, and its process knows better."""
    broken = Breaking(saver)

    def node(state: State) -> dict[str, Any]:
        broken.is_broken = state["x"] == 1
        return {"log": [state["x"]]}

    app = graph_of(node).compile(broken)
    with pytest.raises(StorageUnavailable):
        driver.invoke(app, {"x": 1}, THREAD, durability="sync")
    broken.is_broken = False
    assert driver.invoke(app, {"x": 2}, THREAD)["log"][-1] == 2


class Breaking:
    """A saver that cannot write for a while."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self.is_broken = False

    def __getattr__(self, name: str) -> Any:
        if self.is_broken and name in ("commit", "save_results", "renew"):
            return self._refuse
        return getattr(self._saver, name)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StorageUnavailable("The disk is full.")


def test_a_claim_that_was_interrupted_leaves_nothing_held(saver: Any) -> None:
    """The write may have happened, so it is undone."""
    original = saver.commit

    def commit(commit: Any, **options: Any) -> Any:
        original(commit, **options)
        raise KeyboardInterrupt

    app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver)
    saver.commit = commit
    with pytest.raises(KeyboardInterrupt):
        app.invoke({"x": 1}, THREAD, durability="sync")
    saver.commit = original
    assert saver.lease("t") is None
    assert app.invoke(None, THREAD) == {"x": 1, "log": [1]}


def test_a_call_returns_when_its_thread_is_released(driver: Any, saver: Any) -> None:
    """Also if the saver answers later; who is told of a failure may go on at once, from another process too."""

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(saver, name)

        def commit(self, commit: Any, **options: Any) -> Any:
            resolve(saver.commit(commit, **options))
            raise StorageUnavailable("The answer got lost.")

        def renew(self, thread_id: str, hold: Any) -> Any:
            answer = LightFuture[Any]()
            threading.Thread(target=lambda: answer.set_result(resolve(saver.renew(thread_id, hold)))).start()
            return answer

    with pytest.raises(StorageUnavailable):
        driver.invoke(graph_of(lambda state: None).compile(Late()), {"x": 1}, THREAD)
    assert saver.lease("t") is None


class InterruptedRelease:
    """A saver whose first release is interrupted, as by a second Ctrl-C; it says when somebody looks at a lease."""

    def __init__(self, saver: Any, on_look: Any) -> None:
        self._saver = saver
        self._on_look = on_look
        self.interrupts, self.released = True, threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def lease(self, thread_id: str) -> Any:
        self._on_look()
        return self._saver.lease(thread_id)

    def renew(self, thread_id: str, hold: Any) -> Any:
        if hold.until is None and self.interrupts:
            self.interrupts = False
            raise KeyboardInterrupt
        try:
            return self._saver.renew(thread_id, hold)
        finally:
            if hold.until is None:
                self.released.set()


def test_a_release_that_is_interrupted_is_done_all_the_same(driver: Any, saver: Any) -> None:
    """The run had waited its turn, so it has a place in the queue, too."""

    def node(state: State) -> dict[str, Any]:
        if state["x"] == 2:
            raise KeyboardInterrupt
        return {"log": [state["x"]]}

    holder = Holder(saver)
    broken = InterruptedRelease(saver, holder.open.set)
    app = graph_of(node).compile(broken)
    holder.start()
    with pytest.raises(KeyboardInterrupt):
        app.invoke({"x": 2}, THREAD, on_busy="enqueue")
    holder.end()

    assert driver.invoke(app, {"x": 3}, THREAD)["log"] == [1, 3]
    assert broken.released.wait(GUARD)
    assert saver.lease("t") is None
    other = Holder(saver)
    other.start()
    waiting = threading.Thread(target=lambda: driver.invoke(app, {"x": 4}, THREAD, on_busy="enqueue"), daemon=True)
    waiting.start()
    other.end()
    waiting.join(GUARD)
    assert app.get_state(THREAD).values["log"] == [1, 3, 1, 4]


# -- changes from outside, in their turn

CHANGES = {
    "update_state": lambda app, **options: app.update_state(THREAD, {"log": ["changed"]}, as_node="node", **options),
    "fork": lambda app, **options: app.fork(next(app.get_state_history(THREAD)).config, **options),
    "roll_back": lambda app, **options: app.roll_back(THREAD, **options),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_thread_is_refused_waits_or_stops_the_holder(saver: Any, change: Any) -> None:
    for on_busy in (None, "reject"):
        holder = Holder(saver)
        holder.start()
        with pytest.raises(ThreadBusy):
            change(holder.app, on_busy=on_busy)
        assert isinstance(holder.end(), dict)

    holder = Holder(saver)
    holder.start()
    waiting = threading.Thread(target=lambda: change(holder.app, on_busy="enqueue"), daemon=True)
    waiting.start()
    assert isinstance(holder.end(), dict)
    waiting.join(GUARD)
    assert not waiting.is_alive()
    assert holder.app.get_state(THREAD).metadata["source"] in ("update", "fork")

    for on_busy in ("interrupt", "rollback"):
        holder = Holder(saver)
        holder.start()
        change(holder.app, on_busy=on_busy)
        assert isinstance(holder.end(), RunCancelled)
        assert holder.app.get_state(THREAD).metadata["source"] in ("update", "fork")
        assert saver.lease("t") is None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_unknown_policy_of_a_change_is_refused(saver: Any, change: Any) -> None:
    app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver)
    app.invoke({"x": 0}, THREAD)
    with pytest.raises(InvalidConfig, match="enqueue"):
        change(app, on_busy="enqeue")


WRONG = {
    "no node": lambda app, **options: app.update_state(THREAD, {"log": ["x"]}, as_node="nobody", **options),
    "no update": lambda app, **options: app.update_state(THREAD, 7, as_node="node", **options),
    "several without as_node": lambda app, **options: app.bulk_update_state(
        THREAD, [({"x": 1}, None), ({"x": 2}, None)], **options
    ),
    "no input": lambda app, **options: app.invoke(7, THREAD, **options),
    "no input of a coroutine": lambda app, **options: asyncio.run(app.ainvoke(7, THREAD, **options)),
}


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
@pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG)
def test_a_call_that_is_refused_anyway_stops_no_owner(holder: Holder, ask: Any, on_busy: str) -> None:
    with pytest.raises(InvalidUpdateError):
        ask(holder.app, on_busy=on_busy)
    assert holder.end() == {"x": 1, "log": [1]}
    assert holder.app.checkpointer.lease("t") is None


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_change_that_is_refused_after_a_rollback_holds_nothing(saver: Any, interrupted: bool) -> None:
    """What only the state can tell is known too late. Other processes would wait for the lease."""
    holder = Holder(saver)
    holder.app.invoke({"x": 7}, THREAD)

    def route(state: State) -> str:
        raise KeyboardInterrupt if interrupted else ValueError("no way from here")

    changing = graph_of(lambda state: None).add_conditional_edges("node", route, ["node"]).compile(saver)
    holder.start()
    with pytest.raises(KeyboardInterrupt if interrupted else ValueError):
        changing.update_state(THREAD, {"log": ["x"]}, as_node="node", on_busy="rollback")
    assert isinstance(holder.end(), RunCancelled)
    assert saver.lease("t") is None
    assert holder.app.get_state(THREAD).values["log"] == [7]


# -- while a run waits for its turn


@pytest.mark.parametrize(("request_stop", "error"), [("cancel", RunCancelled), ("drain", GraphDrained)])
def test_a_run_that_waits_for_its_turn_can_be_stopped(
    driver: Any, holder: Holder, request_stop: str, error: type[Exception]
) -> None:
    control, met = RunControl(), list[BaseException]()
    asked = threading.Event()
    saver = holder.app.checkpointer
    before = list(holder.app.get_state_history(THREAD))

    class Looking(SqliteSaver if isinstance(saver, SqliteSaver) else InMemorySaver):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__ = saver.__dict__

        def lease(self, thread_id: str) -> Any:
            asked.set()
            return super().lease(thread_id)

    waiting_app = graph_of(lambda state: {"log": [state["x"]]}).compile(Looking())

    def wait() -> None:
        try:
            driver.invoke(waiting_app, {"x": 2}, THREAD, on_busy="enqueue", control=control)
        except Exception as raised:
            met.append(raised)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert asked.wait(GUARD)
    getattr(control, f"request_{request_stop}")()
    thread.join(GUARD)
    assert not thread.is_alive()
    assert [type(one) for one in met] == [error]
    assert [one.config for one in holder.app.get_state_history(THREAD)] == [one.config for one in before]
    assert isinstance(holder.end(), dict)


def test_a_run_that_waits_is_reported_started_once(driver: Any, saver: Any) -> None:
    told: list[str] = []

    class Listening(Instrument):
        def on_run_started(self, event: Any) -> None:
            told.append("started")

        def on_run_broken_off(self, event: Any) -> None:
            told.append("broken off")

        def on_run_finished(self, event: Any) -> None:
            told.append("finished")

    holder = Holder(saver)
    holder.start()
    app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver, instruments=[Listening()])
    thread = threading.Thread(target=lambda: driver.invoke(app, {"x": 2}, THREAD, on_busy="enqueue"), daemon=True)
    thread.start()
    holder.end()
    thread.join(GUARD)
    assert told == ["started", "finished"]


# -- answers


def test_a_timer_that_an_answer_has_overtaken_is_not_due(driver: Any, saver: Any) -> None:
    clock = FakeClock()
    app = graph_of(lambda state: {"log": [interrupt("?", timeout=10)]}).compile(saver, clock=clock)
    app.invoke({"x": 1}, THREAD)
    clock.advance(11)
    original, calls = saver.load, list[int]()

    def load(*args: Any, **options: Any) -> Any:
        loaded = original(*args, **options)
        calls.append(1)
        if len(calls) == 1:  # it is seen to be due, and answered before it can be resumed
            app.invoke(Command(resume="answer"), THREAD, durability="sync")
        return loaded

    saver.load = load
    resume_due = app.resume_due if driver.name == "sync" else lambda *args: asyncio.run(app.aresume_due(*args))
    assert resume_due(THREAD) is None
    assert app.get_state(THREAD).values["log"] == ["answer"]
