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
    """The process dies."""


class RetentionBench:
    """A workspace that keeps its runs for ten days, and a graph that writes their threads."""

    def __init__(
        self, ledger: Ledger, saver: Checkpointer, new_run: Runs, ask: Callable[..., Any], now: datetime
    ) -> None:
        self.ledger, self.saver, self.new_run, self.ask, self.now = ledger, saver, new_run, ask, now
        self.retention = Retention(ledger, saver)
        graph = StateGraph(dict).add_node("note", lambda state: {"noted": True}).add_edge(START, "note")
        self.app = graph.compile(saver)
        self.add_workspace("default", 10)

    def add_workspace(self, name: str, days: int | None) -> None:
        self.write(Insert(Workspace(id=name, slug=name, retention_days=days, created_at=self.now)))

    def write(self, *changes: Change) -> None:
        self.ask(lambda: self.ledger.write(changes))

    def add_run(self, age: float, status: RunStatus = RunStatus.COMPLETED, **values: Any) -> Run:
        """Store a run that ended a number of days ago, with a thread."""
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
def bench(ledger: Ledger, saver: Checkpointer, new_run: Runs, ask: Callable[..., Any], now: datetime) -> RetentionBench:
    return RetentionBench(ledger, saver, new_run, ask, now)


# -- deleted and kept records


@pytest.mark.parametrize("status", list(RunStatus))
@pytest.mark.parametrize("age", [9.99, 10.01, 1000])
def test_runs_are_deleted_after_their_retention(bench: RetentionBench, status: RunStatus, age: float) -> None:
    run = bench.add_run(age, status)
    bench.sweep()
    is_kept = age < 10 or status not in ENDED_AT
    assert (bench.has_run(run), bench.has_thread(run)) == (is_kept, is_kept)


def test_a_run_is_deleted_with_all_its_records(bench: RetentionBench) -> None:
    run = bench.add_run(11)
    bench.write(
        Insert(RunLabel(id="l", run_id=run.id, name="", value="a")),
        Insert(StepRun(id="s", run_id=run.id, task_id="t", name="note", type="node")),
        Advance(run.id, bench.now, {}, [NewEvent("WORKFLOW_STARTED", {})]),
    )
    bench.sweep()
    assert [bench.count(kind) for kind in (Run, RunLabel, StepRun)] == [0, 0, 0]
    assert list(bench.ask(lambda: bench.ledger.events(run.id))) == []


def test_workspaces_without_a_retention_keep_everything(bench: RetentionBench) -> None:
    bench.add_workspace("keeper", None)
    bench.add_workspace("year", 365)
    kept_runs = [bench.add_run(300, workspace_id="keeper"), bench.add_run(300, workspace_id="year")]
    deleted = bench.add_run(300)
    bench.sweep()
    assert [bench.has_run(run) for run in [*kept_runs, deleted]] == [True, True, False]


def test_a_thread_used_by_another_run_is_kept(bench: RetentionBench) -> None:
    old = bench.add_run(20, thread_id="shared")
    recent = bench.add_run(1, thread_id="shared")
    bench.sweep()
    assert (bench.has_run(old), bench.has_run(recent), bench.has_thread(old)) == (False, True, True)


@pytest.mark.parametrize("status", [RunStatus.WAITING, RunStatus.PENDING])
def test_a_thread_with_a_waiting_run_is_kept(bench: RetentionBench, status: RunStatus) -> None:
    old = bench.add_run(20, thread_id="shared")
    bench.add_run(20, status, thread_id="shared")
    bench.sweep()
    assert (bench.has_run(old), bench.has_thread(old)) == (False, True)


def test_threads_with_the_same_id_in_other_workspaces_are_independent(bench: RetentionBench) -> None:
    old = bench.add_run(20, thread_id="t")
    other = bench.add_run(20, thread_id="t", workspace_id="other")
    bench.sweep()
    assert (bench.has_run(old), bench.has_thread(old)) == (False, False)
    assert (bench.has_run(other), bench.has_thread(other)) == (True, True)


def test_a_thread_is_deleted_with_its_last_run(bench: RetentionBench) -> None:
    runs = [bench.add_run(20 + age, thread_id="shared") for age in range(3)]
    bench.sweep()
    assert not any(bench.has_run(run) for run in runs)
    assert not bench.has_thread(runs[0])


CONTINUES = [status for status in RunStatus if status not in (RunStatus.COMPLETED, RunStatus.CANCELLED)]


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_child_is_kept_while_its_parent_may_start_it_again(bench: RetentionBench, status: RunStatus) -> None:
    parent = bench.add_run(1, status)
    child = bench.add_run(20, parent_id=parent.id)
    bench.sweep()
    is_kept = status in CONTINUES
    assert (bench.has_run(child), bench.has_thread(child)) == (is_kept, is_kept)


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
def test_a_child_is_deleted_after_its_parent(bench: RetentionBench, status: RunStatus) -> None:
    parent = bench.add_run(15, status)
    child = bench.add_run(20, parent_id=parent.id)
    bench.sweep()
    assert not bench.has_run(parent)
    bench.now += SWEEP_INTERVAL
    bench.sweep()
    assert (bench.has_run(child), bench.has_thread(child)) == (False, False)


def test_kept_runs_do_not_delay_others(bench: RetentionBench) -> None:
    parent = bench.add_run(1, RunStatus.WAITING)
    long_ago = bench.now - 100 * DAY
    kept_runs = [
        bench.new_run(status=RunStatus.COMPLETED, completed_at=long_ago, parent_id=parent.id)
        for _ in range(2 * BATCH_SIZE + 5)
    ]
    bench.write(*map(Insert, kept_runs))
    runs = [bench.add_run(20) for _ in range(3)]
    bench.sweep()
    assert not any(bench.has_run(run) for run in runs)
    assert bench.count(Run) == len(kept_runs) + 1


def test_old_events_and_deliveries_are_deleted(bench: RetentionBench) -> None:
    for number, (age, status) in enumerate([(11, "delivered"), (11, "failed"), (11, "pending"), (9, "delivered")]):
        at = bench.now - age * DAY
        bench.write(
            Insert(
                Delivery(
                    id=f"d{number}",
                    webhook_id="w",
                    workspace_id="default",
                    event_type="x",
                    status=status,
                    created_at=at,
                )
            ),
            Insert(ReceivedEvent(id=f"e{number}", workspace_id="default", name="paid", created_at=at)),
        )
    bench.sweep()
    remaining = bench.ask(lambda: bench.ledger.find(Delivery))
    assert [item.id for item in remaining] == ["d2", "d3"]
    assert [item.id for item in bench.ask(lambda: bench.ledger.find(ReceivedEvent))] == ["e3"]


# -- the times of sweeps


def test_sweeps_repeat_every_hour_and_not_on_every_wake(bench: RetentionBench) -> None:
    assert bench.sweep() == bench.now + SWEEP_INTERVAL
    run = bench.add_run(11)
    bench.now += SWEEP_INTERVAL / 2
    assert bench.sweep() == bench.now + SWEEP_INTERVAL / 2
    assert bench.has_run(run)
    bench.now += SWEEP_INTERVAL / 2
    bench.sweep()
    assert not bench.has_run(run)


def test_many_records_are_deleted_in_batches(bench: RetentionBench) -> None:
    runs = [bench.new_run(status=RunStatus.COMPLETED, completed_at=bench.now - 11 * DAY) for _ in range(BATCH_SIZE + 5)]
    bench.write(*map(Insert, runs))
    assert bench.sweep() == bench.now
    assert bench.count(Run) == 5
    assert bench.sweep() == bench.now + SWEEP_INTERVAL
    assert bench.count(Run) == 0


# -- concurrency and failures


class InterveningSaver(InMemorySaver):
    """A saver that calls a function just before it deletes a thread."""

    def __init__(self, saver: Checkpointer, intervene: Callable[[], Any]) -> None:
        super().__init__()
        self.saver, self.intervene = saver, intervene

    def for_workspace(self, workspace: str) -> InterveningSaver:
        return InterveningSaver(self.saver.for_workspace(workspace), self.intervene)

    def delete_thread(self, thread_id: str, **options: Any) -> Any:
        future = self.intervene()
        if future is not None:
            future.result()
        return self.saver.delete_thread(thread_id, **options)


def test_a_run_retried_concurrently_is_kept(bench: RetentionBench) -> None:
    """The run is retried after it was read as failed, and before it is deleted."""
    run = bench.add_run(11, RunStatus.FAILED)
    retry = Advance(run.id, bench.now, {"status": RunStatus.RUNNING}, (), where(version=run.version))
    bench.retention = Retention(bench.ledger, InterveningSaver(bench.saver, lambda: bench.ledger.write([retry])))
    bench.sweep()
    assert (bench.has_run(run), bench.has_thread(run)) == (True, True)


def test_a_thread_taken_concurrently_is_kept(bench: RetentionBench) -> None:
    run = bench.add_run(11, thread_id="t")
    another = bench.new_run(thread_id="t")
    bench.retention = Retention(
        bench.ledger, InterveningSaver(bench.saver, lambda: bench.ledger.write([Insert(another)]))
    )
    bench.sweep()
    assert (bench.has_run(run), bench.has_run(another), bench.has_thread(another)) == (False, True, True)


def test_a_run_marked_by_an_earlier_release_is_deleted(bench: RetentionBench) -> None:
    run = bench.add_run(11, claim="retention:1")
    bench.sweep()
    assert (bench.has_run(run), bench.has_thread(run)) == (False, False)


def test_a_run_that_cannot_be_deleted_does_not_delay_others(
    bench: RetentionBench, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = bench.add_run(12), bench.add_run(11)
    saver = bench.saver

    class Broken(InMemorySaver):
        def delete_thread(self, thread_id: str, **options: Any) -> Any:
            if thread_id == first.thread_id:
                raise OSError("the disk is broken")
            return saver.delete_thread(thread_id, **options)

    bench.retention = Retention(bench.ledger, Broken())
    with caplog.at_level(logging.ERROR, logger="statewright.service"):
        bench.sweep()
    assert (bench.has_run(first), bench.has_run(second)) == (True, False)
    assert first.id in caplog.text
    bench.retention = Retention(bench.ledger, saver)
    bench.sweep()
    assert (bench.has_run(first), bench.has_thread(first)) == (False, False)


def test_concurrent_sweeps_delete_everything(bench: RetentionBench) -> None:
    runs = [bench.add_run(20, thread_id=f"shared-{number // 2}") for number in range(8)]
    others = [Retention(bench.ledger, bench.saver) for _ in range(3)]

    async def sweep_all() -> None:
        await asyncio.gather(*(other.sweep(bench.now) for other in others))

    asyncio.run(sweep_all())
    bench.sweep()
    assert not any(bench.has_run(run) or bench.has_thread(run) for run in runs)


class CrashingStorage:
    """A saver or a ledger whose process dies before or after one of its writes."""

    def __init__(self, storage: Any, plan: CrashPlan) -> None:
        self.storage, self.plan = storage, plan

    def for_workspace(self, workspace: str) -> CrashingStorage:
        return CrashingStorage(self.storage.for_workspace(workspace), self.plan)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.storage, name)
        return method if name not in ("write", "delete_thread") else partial(self.plan.call, method)


class CrashPlan:
    """The number of writes until the crash, and whether the last one takes effect."""

    def __init__(self) -> None:
        self.writes_left: int | None = None
        self.writes_last = False

    def call(self, write: Callable[..., Any], *args: Any, **options: Any) -> None:
        if self.writes_left is not None:
            self.writes_left -= 1
        if self.writes_left is None or self.writes_left >= 0 or (self.writes_last and self.writes_left == -1):
            write(*args, **options)
        if self.writes_left is not None and self.writes_left < 0:
            raise Crash


@pytest.mark.parametrize("writes_last", [False, True])
@pytest.mark.parametrize("successful_writes", range(8))
def test_a_crash_at_any_write_leaves_no_run_behind(
    new_run: Runs, ask: Callable[..., Any], now: datetime, successful_writes: int, writes_last: bool
) -> None:
    plan = CrashPlan()
    bench = RetentionBench(InMemoryLedger(), InMemorySaver(), new_run, ask, now)
    bench.retention = Retention(CrashingStorage(bench.ledger, plan), CrashingStorage(bench.saver, plan))  # type: ignore[arg-type]
    runs = [bench.add_run(20 + age) for age in range(3)]
    shared = [bench.add_run(20 + age, thread_id="shared") for age in range(2)]
    recent = bench.add_run(1)
    plan.writes_left, plan.writes_last = successful_writes, writes_last
    with suppress(Crash):
        bench.sweep()
    for run in runs:
        assert bench.has_run(run) == bench.has_thread(run)
    assert any(bench.has_run(run) for run in shared) == bench.has_thread(shared[0])
    runs += shared
    bench.retention = Retention(bench.ledger, bench.saver)
    bench.sweep()
    assert not any(bench.has_run(run) or bench.has_thread(run) for run in runs)
    assert bench.has_run(recent)
    assert bench.has_thread(recent)
