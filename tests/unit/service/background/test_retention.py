"""Deletion of old runs with their threads, also across crashes; unfinished runs are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from statewright import START, StateGraph
from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.runs import (
    Advance,
    Change,
    Delivery,
    InMemoryLedger,
    Insert,
    Ledger,
    NewEvent,
    ReceivedEvent,
    Run,
    RunLabel,
    RunStatus,
    StepRun,
    Workspace,
    where,
)
from statewright.service.background.retention import BATCH_SIZE, SWEEP_INTERVAL, Retention

DAY = timedelta(days=1)
Runs = Callable[..., Run]
ENDED_AT = {
    RunStatus.COMPLETED: "completed_at",
    RunStatus.FAILED: "failed_at",
    RunStatus.CANCELLED: "cancelled_at",
}


class Crash(BaseException):
    """The process is gone."""


class Archive:
    """A workspace that keeps its runs for ten days, and threads that are written by a graph."""

    def __init__(
        self, ledger: Ledger, saver: Checkpointer, new_run: Runs, ask: Callable[..., Any], now: datetime
    ) -> None:
        self.ledger, self.saver, self.new_run, self.ask, self.now = ledger, saver, new_run, ask, now
        self.retention = Retention(ledger, saver)
        graph = StateGraph(dict).add_node("note", lambda state: {"noted": True}).add_edge(START, "note")
        self.app = graph.compile(saver)
        self.workspace("default", 10)

    def workspace(self, name: str, days: int | None) -> None:
        self.write(Insert(Workspace(id=name, slug=name, retention_days=days, created_at=self.now)))

    def write(self, *changes: Change) -> None:
        self.ask(lambda: self.ledger.write(changes))

    def run(self, age: float, status: RunStatus = RunStatus.COMPLETED, **values: Any) -> Run:
        """A run that ended so many days ago, with a thread."""
        ended = {ENDED_AT[status]: self.now - age * DAY} if status in ENDED_AT else {}
        run = self.new_run(status=status, created_at=self.now - (age + 1) * DAY, **{**ended, **values})
        self.write(Insert(run))
        app = self.app.with_services(checkpointer=self.saver.for_workspace(run.workspace_id))
        app.invoke({"noted": False}, thread_id=run.thread_id)
        return run

    def sweep(self) -> datetime | None:
        return asyncio.run(self.retention.sweep(self.now))

    def has_run(self, run: Run) -> bool:
        return self.ask(lambda: self.ledger.get(Run, run.id)) is not None

    def has_thread(self, run: Run) -> bool:
        return self.ask(lambda: self.saver.for_workspace(run.workspace_id).load(run.thread_id)) is not None

    def count(self, kind: Any) -> int:
        return self.ask(lambda: self.ledger.count(kind))


@pytest.fixture
def archive(ledger: Ledger, saver: Checkpointer, new_run: Runs, ask: Callable[..., Any], now: datetime) -> Archive:
    return Archive(ledger, saver, new_run, ask, now)


# -- what goes, and what stays


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("age", [9.99, 10.01, 1000])
def test_runs_are_deleted_after_their_retention(archive: Archive, status: RunStatus, age: float) -> None:
    run = archive.run(age, status)
    archive.sweep()
    stays = age < 10 or status not in ENDED_AT
    assert (archive.has_run(run), archive.has_thread(run)) == (stays, stays)


def test_a_run_is_deleted_with_all_its_records(archive: Archive) -> None:
    run = archive.run(11)
    archive.write(
        Insert(RunLabel(id="l", run_id=run.id, name="", value="a")),
        Insert(StepRun(id="s", run_id=run.id, task_id="t", name="note", type="node")),
        Advance(run.id, archive.now, {}, [NewEvent("WORKFLOW_STARTED", {})]),
    )
    archive.sweep()
    assert [archive.count(kind) for kind in (Run, RunLabel, StepRun)] == [0, 0, 0]
    assert list(archive.ask(lambda: archive.ledger.events(run.id))) == []


def test_workspaces_without_a_retention_keep_everything(archive: Archive) -> None:
    archive.workspace("keeper", None)
    archive.workspace("year", 365)
    kept = [archive.run(300, workspace_id="keeper"), archive.run(300, workspace_id="year")]
    gone = archive.run(300)
    archive.sweep()
    assert [archive.has_run(run) for run in [*kept, gone]] == [True, True, False]


def test_a_thread_used_by_another_run_is_kept(archive: Archive) -> None:
    old = archive.run(20, thread_id="shared")
    young = archive.run(1, thread_id="shared")
    archive.sweep()
    assert (archive.has_run(old), archive.has_run(young), archive.has_thread(old)) == (False, True, True)


@pytest.mark.parametrize("status", [RunStatus.WAITING, RunStatus.PENDING])
def test_a_thread_with_a_waiting_run_is_kept(archive: Archive, status: RunStatus) -> None:
    old = archive.run(20, thread_id="shared")
    archive.run(20, status, thread_id="shared")
    archive.sweep()
    assert (archive.has_run(old), archive.has_thread(old)) == (False, True)


def test_threads_with_the_same_id_in_other_workspaces_are_independent(archive: Archive) -> None:
    old = archive.run(20, thread_id="t")
    other = archive.run(20, thread_id="t", workspace_id="other")
    archive.sweep()
    assert (archive.has_run(old), archive.has_thread(old)) == (False, False)
    assert (archive.has_run(other), archive.has_thread(other)) == (True, True)


def test_a_thread_is_deleted_with_its_last_run(archive: Archive) -> None:
    runs = [archive.run(20 + age, thread_id="shared") for age in range(3)]
    archive.sweep()
    assert not any(archive.has_run(run) for run in runs)
    assert not archive.has_thread(runs[0])


CONTINUES = [status for status in RunStatus if status not in (RunStatus.COMPLETED, RunStatus.CANCELLED)]


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_child_is_kept_while_its_parent_may_start_it_again(archive: Archive, status: RunStatus) -> None:
    parent = archive.run(1, status)
    child = archive.run(20, parent_id=parent.id)
    archive.sweep()
    stays = status in CONTINUES
    assert (archive.has_run(child), archive.has_thread(child)) == (stays, stays)


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
def test_a_child_is_deleted_after_its_parent(archive: Archive, status: RunStatus) -> None:
    parent = archive.run(15, status)
    child = archive.run(20, parent_id=parent.id)
    archive.sweep()
    assert not archive.has_run(parent)
    archive.now += SWEEP_INTERVAL
    archive.sweep()
    assert (archive.has_run(child), archive.has_thread(child)) == (False, False)


def test_kept_runs_do_not_delay_others(archive: Archive) -> None:
    parent = archive.run(1, RunStatus.WAITING)
    long_ago = archive.now - 100 * DAY
    kept = [
        archive.new_run(status=RunStatus.COMPLETED, completed_at=long_ago, parent_id=parent.id)
        for _ in range(2 * BATCH_SIZE + 5)
    ]
    archive.write(*map(Insert, kept))
    runs = [archive.run(20) for _ in range(3)]
    archive.sweep()
    assert not any(archive.has_run(run) for run in runs)
    assert archive.count(Run) == len(kept) + 1


def test_events_and_deliveries_are_deleted_too(archive: Archive) -> None:
    for place, (age, status) in enumerate([(11, "delivered"), (11, "failed"), (11, "pending"), (9, "delivered")]):
        at = archive.now - age * DAY
        archive.write(
            Insert(
                Delivery(
                    id=f"d{place}", webhook_id="w", workspace_id="default", event_type="x", status=status, created_at=at
                )
            ),
            Insert(ReceivedEvent(id=f"e{place}", workspace_id="default", name="paid", created_at=at)),
        )
    archive.sweep()
    left = archive.ask(lambda: archive.ledger.find(Delivery))
    assert [item.id for item in left] == ["d2", "d3"]
    assert [item.id for item in archive.ask(lambda: archive.ledger.find(ReceivedEvent))] == ["e3"]


# -- when


def test_sweeps_repeat_every_hour_and_not_on_every_wake(archive: Archive) -> None:
    assert archive.sweep() == archive.now + SWEEP_INTERVAL
    run = archive.run(11)
    archive.now += SWEEP_INTERVAL / 2
    assert archive.sweep() == archive.now + SWEEP_INTERVAL / 2
    assert archive.has_run(run)
    archive.now += SWEEP_INTERVAL / 2
    archive.sweep()
    assert not archive.has_run(run)


def test_many_records_are_deleted_in_batches(archive: Archive) -> None:
    runs = [
        archive.new_run(status=RunStatus.COMPLETED, completed_at=archive.now - 11 * DAY) for _ in range(BATCH_SIZE + 5)
    ]
    archive.write(*map(Insert, runs))
    assert archive.sweep() == archive.now
    assert archive.count(Run) == 5
    assert archive.sweep() == archive.now + SWEEP_INTERVAL
    assert archive.count(Run) == 0


# -- what goes wrong


class Meanwhile(InMemorySaver):
    """A saver that calls a function just before it deletes a thread."""

    def __init__(self, saver: Checkpointer, happens: Callable[[], Any]) -> None:
        super().__init__()
        self.saver, self.happens = saver, happens

    def for_workspace(self, workspace: str) -> Meanwhile:
        return Meanwhile(self.saver.for_workspace(workspace), self.happens)

    def delete_thread(self, thread_id: str, **options: Any) -> Any:
        done = self.happens()
        if done is not None:
            done.result()
        return self.saver.delete_thread(thread_id, **options)


def test_a_run_retried_concurrently_is_kept(archive: Archive) -> None:
    """It was read as failed, and retried before it was deleted."""
    run = archive.run(11, RunStatus.FAILED)
    again = Advance(run.id, archive.now, {"status": RunStatus.RUNNING}, (), where(version=run.version))
    archive.retention = Retention(archive.ledger, Meanwhile(archive.saver, lambda: archive.ledger.write([again])))
    archive.sweep()
    assert (archive.has_run(run), archive.has_thread(run)) == (True, True)


def test_a_thread_taken_concurrently_is_kept(archive: Archive) -> None:
    run = archive.run(11, thread_id="t")
    another = archive.new_run(thread_id="t")
    archive.retention = Retention(
        archive.ledger, Meanwhile(archive.saver, lambda: archive.ledger.write([Insert(another)]))
    )
    archive.sweep()
    assert (archive.has_run(run), archive.has_run(another), archive.has_thread(another)) == (False, True, True)


def test_a_run_marked_by_an_earlier_release_is_deleted(archive: Archive) -> None:
    run = archive.run(11, claim="retention:1")
    archive.sweep()
    assert (archive.has_run(run), archive.has_thread(run)) == (False, False)


def test_a_run_that_cannot_be_deleted_does_not_delay_others(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    first, second = archive.run(12), archive.run(11)
    saver = archive.saver

    class Broken(InMemorySaver):
        def delete_thread(self, thread_id: str, **options: Any) -> Any:
            if thread_id == first.thread_id:
                raise OSError("the disk is broken")
            return saver.delete_thread(thread_id, **options)

    archive.retention = Retention(archive.ledger, Broken())
    with caplog.at_level(logging.ERROR, logger="statewright.service"):
        archive.sweep()
    assert (archive.has_run(first), archive.has_run(second)) == (True, False)
    assert first.id in caplog.text
    archive.retention = Retention(archive.ledger, saver)
    archive.sweep()
    assert (archive.has_run(first), archive.has_thread(first)) == (False, False)


def test_concurrent_sweeps_delete_everything(archive: Archive) -> None:
    runs = [archive.run(20, thread_id=f"shared-{number // 2}") for number in range(8)]
    others = [Retention(archive.ledger, archive.saver) for _ in range(3)]

    async def together() -> None:
        await asyncio.gather(*(other.sweep(archive.now) for other in others))

    asyncio.run(together())
    archive.sweep()
    assert not any(archive.has_run(run) or archive.has_thread(run) for run in runs)


class Mortal:
    """A saver or a ledger whose process dies before or after one of its writes, and cannot clear up then."""

    def __init__(self, storage: Any, life: Life) -> None:
        self.storage, self.life = storage, life

    def for_workspace(self, workspace: str) -> Mortal:
        return Mortal(self.storage.for_workspace(workspace), self.life)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.storage, name)
        return method if name not in ("write", "delete_thread") else partial(self.life.call, method)


class Life:
    """How many writes are left, and whether the last one is still done."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False

    def call(self, write: Callable[..., Any], *args: Any, **options: Any) -> None:
        if self.left is not None:
            self.left -= 1
        if self.left is None or self.left >= 0 or (self.after and self.left == -1):
            write(*args, **options)
        if self.left is not None and self.left < 0:
            raise Crash


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("survived", range(8))
def test_a_crash_at_any_write_leaves_nothing_behind(
    new_run: Runs, ask: Callable[..., Any], now: datetime, survived: int, after: bool
) -> None:
    life = Life()
    archive = Archive(InMemoryLedger(), InMemorySaver(), new_run, ask, now)
    archive.retention = Retention(Mortal(archive.ledger, life), Mortal(archive.saver, life))  # type: ignore[arg-type]
    runs = [archive.run(20 + age) for age in range(3)]
    shared = [archive.run(20 + age, thread_id="shared") for age in range(2)]
    young = archive.run(1)
    life.left, life.after = survived, after
    with suppress(Crash):
        archive.sweep()
    for run in runs:
        assert archive.has_run(run) == archive.has_thread(run)
    assert any(archive.has_run(run) for run in shared) == archive.has_thread(shared[0])
    runs += shared
    archive.retention = Retention(archive.ledger, archive.saver)
    archive.sweep()
    assert not any(archive.has_run(run) or archive.has_thread(run) for run in runs)
    assert archive.has_run(young)
    assert archive.has_thread(young)
