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
    """A run whose node waits until the test opens it."""

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


# -- the duration


@pytest.mark.parametrize(
    ("saver_lease", "graph_lease", "seconds"),
    [(None, None, 60), (5, None, 5), (5, 2.5, 2.5), (None, timedelta(minutes=2), 120)],
)
def test_the_lease_of_a_graph_overrides_that_of_its_saver(
    tmp_path: Path, saver_lease: Any, graph_lease: Any, seconds: float
) -> None:
    clock = FakeClock()
    for saver in (InMemorySaver(lease=saver_lease), SqliteSaver(tmp_path / "t.db", lease=saver_lease)):
        with saver:
            holder = Holder(saver, clock=clock, lease=graph_lease)
            holder.start()
            lease = saver.lease("t")
            assert lease is not None
            assert lease.until - clock.now() == timedelta(seconds=seconds)  # type: ignore[union-attr]
            clock.advance(seconds / 3)  # it is renewed after a third of its duration
            assert saver.lease("t").until - clock.now() == timedelta(seconds=seconds)  # type: ignore[union-attr]
            holder.end()
            assert saver.lease("t") is None


@pytest.mark.parametrize("lease", [0, -1, timedelta(0), float("nan")])
def test_a_lease_must_be_a_positive_duration(lease: Any) -> None:
    with pytest.raises(InvalidConfig, match="lease="):
        InMemorySaver(lease=lease)
    with pytest.raises(InvalidConfig, match="lease="):
        graph_of(lambda state: None).compile(InMemorySaver(), lease=lease)


# -- takeover


def test_a_thread_can_be_taken_from_its_holder(driver: Any, holder: Holder) -> None:
    other = graph_of(lambda state: {"log": [state["x"]]}).compile(holder.app.checkpointer)
    with pytest.raises(ThreadBusy):
        driver.invoke(other, {"x": 2}, THREAD)

    other.release("t")
    assert driver.invoke(other, {"x": 2}, THREAD)["log"] == [2]
    assert isinstance(holder.end(), LeaseLost)
    other.release("t")  # it has no owner
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
def test_a_run_that_could_not_save_its_end_does_not_block_its_process(driver: Any, saver: Any, method: str) -> None:
    """Its lease is left behind, for example when the disk is full."""
    broken = Unwritable(saver)

    def node(state: State) -> dict[str, Any]:
        broken.is_full = state["x"] == 1
        return {"log": [state["x"]]}

    app = graph_of(node).compile(broken)
    with pytest.raises(StorageUnavailable):
        driver.invoke(app, {"x": 1}, THREAD, durability="sync")
    broken.is_full = False
    assert driver.invoke(app, {"x": 2}, THREAD)["log"][-1] == 2


class Unwritable:
    """A saver that can be made unable to write."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self.is_full = False

    def __getattr__(self, name: str) -> Any:
        if self.is_full and name in ("commit", "save_results", "renew"):
            return self._refuse
        return getattr(self._saver, name)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise StorageUnavailable("The disk is full.")


def test_an_interrupted_claim_releases_the_thread(saver: Any) -> None:
    """The claim may have been written, so it is released."""
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


def test_a_call_returns_after_its_thread_is_released(driver: Any, saver: Any) -> None:
    """This also holds if the saver releases it on another thread, so that the caller may continue at once."""

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
    """A saver whose first release is interrupted, as by Ctrl-C; it calls a function when a lease is read."""

    def __init__(self, saver: Any, on_read: Any) -> None:
        self._saver = saver
        self._on_read = on_read
        self.interrupts, self.released = True, threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def lease(self, thread_id: str) -> Any:
        self._on_read()
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


def test_an_interrupted_release_is_completed(driver: Any, saver: Any) -> None:
    """The run has also waited in the queue of the thread."""

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


# -- changes of a busy thread

CHANGES = {
    "update_state": lambda app, **options: app.update_state(THREAD, {"log": ["changed"]}, as_node="node", **options),
    "fork": lambda app, **options: app.fork(next(app.get_state_history(THREAD)).config, **options),
    "roll_back": lambda app, **options: app.roll_back(THREAD, **options),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_busy_thread_follows_its_on_busy_policy(saver: Any, change: Any) -> None:
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
def test_an_unknown_on_busy_policy_of_a_change_is_refused(saver: Any, change: Any) -> None:
    app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver)
    app.invoke({"x": 0}, THREAD)
    with pytest.raises(InvalidConfig, match="enqueue"):
        change(app, on_busy="enqeue")


INVALID_CALLS = {
    "unknown node": lambda app, **options: app.update_state(THREAD, {"log": ["x"]}, as_node="nobody", **options),
    "invalid update": lambda app, **options: app.update_state(THREAD, 7, as_node="node", **options),
    "several without as_node": lambda app, **options: app.bulk_update_state(
        THREAD, [({"x": 1}, None), ({"x": 2}, None)], **options
    ),
    "invalid input": lambda app, **options: app.invoke(7, THREAD, **options),
    "invalid input of a coroutine": lambda app, **options: asyncio.run(app.ainvoke(7, THREAD, **options)),
}


@pytest.mark.parametrize("on_busy", ["interrupt", "rollback"])
@pytest.mark.parametrize("invalid_call", INVALID_CALLS.values(), ids=INVALID_CALLS)
def test_an_invalid_call_does_not_stop_the_owner_of_the_thread(holder: Holder, invalid_call: Any, on_busy: str) -> None:
    with pytest.raises(InvalidUpdateError):
        invalid_call(holder.app, on_busy=on_busy)
    assert holder.end() == {"x": 1, "log": [1]}
    assert holder.app.checkpointer.lease("t") is None


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_change_that_fails_after_a_rollback_releases_the_thread(saver: Any, interrupted: bool) -> None:
    """The error is found only after the rollback; the lease is released all the same."""
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
def test_a_queued_run_can_be_stopped(driver: Any, holder: Holder, request_stop: str, error: type[Exception]) -> None:
    control, errors = RunControl(), list[BaseException]()
    is_queued = threading.Event()
    saver = holder.app.checkpointer
    configs = [snapshot.config for snapshot in holder.app.get_state_history(THREAD)]

    class LeaseReads(type(saver)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.__dict__ = saver.__dict__

        def lease(self, thread_id: str) -> Any:
            is_queued.set()
            return super().lease(thread_id)

    waiting_app = graph_of(lambda state: {"log": [state["x"]]}).compile(LeaseReads())

    def wait() -> None:
        try:
            driver.invoke(waiting_app, {"x": 2}, THREAD, on_busy="enqueue", control=control)
        except Exception as raised:
            errors.append(raised)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert is_queued.wait(GUARD)
    getattr(control, f"request_{request_stop}")()
    thread.join(GUARD)
    assert not thread.is_alive()
    assert [type(raised) for raised in errors] == [error]
    assert [snapshot.config for snapshot in holder.app.get_state_history(THREAD)] == configs
    assert isinstance(holder.end(), dict)


def test_a_queued_run_is_reported_started_once(driver: Any, saver: Any) -> None:
    events: list[str] = []

    class RunListener(Instrument):
        def on_run_started(self, event: Any) -> None:
            events.append("started")

        def on_run_broken_off(self, event: Any) -> None:
            events.append("broken off")

        def on_run_finished(self, event: Any) -> None:
            events.append("finished")

    holder = Holder(saver)
    holder.start()
    app = graph_of(lambda state: {"log": [state["x"]]}).compile(saver, instruments=[RunListener()])
    thread = threading.Thread(target=lambda: driver.invoke(app, {"x": 2}, THREAD, on_busy="enqueue"), daemon=True)
    thread.start()
    holder.end()
    thread.join(GUARD)
    assert events == ["started", "finished"]


# -- answers


def test_the_timer_of_an_answered_question_is_not_due(driver: Any, saver: Any) -> None:
    clock = FakeClock()
    app = graph_of(lambda state: {"log": [interrupt("?", timeout=10)]}).compile(saver, clock=clock)
    app.invoke({"x": 1}, THREAD)
    clock.advance(11)
    original, calls = saver.load, list[int]()

    def load(*args: Any, **options: Any) -> Any:
        loaded = original(*args, **options)
        calls.append(1)
        if len(calls) == 1:  # the timer is due, and the question is answered before it is resumed
            app.invoke(Command(resume="answer"), THREAD, durability="sync")
        return loaded

    saver.load = load
    resume_due = app.resume_due if driver.name == "sync" else lambda *args: asyncio.run(app.aresume_due(*args))
    assert resume_due(THREAD) is None
    assert app.get_state(THREAD).values["log"] == ["answer"]
