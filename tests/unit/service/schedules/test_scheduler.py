"""The scheduler starts one run for each time, also with concurrent processes and crashes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.errors import NotFound, RecordConflict, StorageUnavailable
from statewright.runs import (
    Change,
    Delete,
    InMemoryLedger,
    Insert,
    Ledger,
    Order,
    Run,
    RunStatus,
    Schedule,
    Update,
    where,
)
from statewright.service.context.requests import StartRun
from statewright.service.operations.control import Cancellation
from statewright.service.schedules import (
    NewSchedule,
    Scheduler,
    add_schedule,
    change_schedule,
    pause_schedule,
    remove_schedule,
    resume_schedule,
)
from statewright.testing import FakeClock

HOUR = timedelta(hours=1)
Runs = Callable[..., Run]


class SchedulerBench:
    """A scheduler on a ledger, with recorded requests and cancellations."""

    def __init__(self, ledger: Ledger, new_run: Runs, now: datetime) -> None:
        self.ledger = ledger
        self.new_run = new_run
        self.clock = FakeClock(now)
        self.requests: list[StartRun] = []
        self.cancelled: list[str] = []
        self.started_ids: list[str] = []
        self.failure: Exception | None = None
        self.scheduler = self.new_scheduler()

    def new_scheduler(self) -> Scheduler:
        return Scheduler(
            self.ledger, self.prepare, self.prepare_cancellation, on_started=lambda run: self.started_ids.append(run.id)
        )

    async def prepare(self, workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        run = self.new_run(
            workspace_id=workspace_id,
            graph=request.graph or "defined",
            idempotency_key=request.idempotency_key,
            source=request.source,
            metadata=dict(request.metadata),
            created_at=now,
            due_at=now,
        )
        await asyncio.sleep(0)
        return run, [Insert(run)]

    async def prepare_cancellation(self, runs: Sequence[Run]) -> Cancellation:
        values = {"status": RunStatus.CANCELLED}
        ids = [run.id for run in runs]
        changes = [Update(Run, run.id, values, where(version=run.version)) for run in runs]
        return Cancellation(changes, lambda: self.cancelled.extend(ids))

    # -- without an event loop

    def add(self, **values: Any) -> Schedule:
        new = NewSchedule(**{"name": "hourly", "cron": "0 * * * *", "graph": "report", **values})
        return asyncio.run(add_schedule(self.ledger, "default", new, self.clock.now()))

    def sweep(self, after: timedelta = HOUR) -> datetime | None:
        self.clock.advance(after)
        return asyncio.run(self.scheduler.sweep(self.clock.now()))

    def started_times(self) -> list[str]:
        """Return the times for which runs were started."""
        return [run.metadata["scheduledFor"] for run in self.runs()]

    def runs(self) -> list[Run]:
        return wait_for(lambda: self.ledger.find(Run, order=Order("created_at")))

    def end_runs(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        for run in self.runs():
            wait_for(lambda run=run: self.ledger.write([Update(Run, run.id, {"status": status})]))

    def schedule(self) -> Schedule:
        return wait_for(lambda: self.ledger.find(Schedule))[0]


def wait_for(call: Callable[[], Any]) -> Any:
    async def result() -> Any:
        return await aresolve(call())

    return asyncio.run(result())


@pytest.fixture
def bench(ledger: Ledger, new_run: Runs, now: datetime) -> SchedulerBench:
    return SchedulerBench(ledger, new_run, now)


# -- due runs


def test_due_runs_are_started(bench: SchedulerBench) -> None:
    schedule = bench.add(input={"n": 1}, tags=["nightly"], metadata={"team": "ops"})
    assert bench.sweep(HOUR / 2) == schedule.next_at
    assert bench.runs() == []
    assert bench.sweep(HOUR / 2) == bench.clock.now() + HOUR
    (request,) = bench.requests
    assert request == StartRun(
        graph="report",
        input={"n": 1},
        idempotency_key=f"schedule:{schedule.id}:2026-03-02T13:00:00Z",
        tags=["nightly"],
        metadata={"team": "ops", "scheduledFor": "2026-03-02T13:00:00Z"},
        source=f"schedule:{schedule.id}",
    )
    (run,) = bench.runs()
    assert bench.started_ids == [run.id]
    assert (bench.schedule().last_run_id, bench.schedule().last_at) == (run.id, schedule.next_at)


def test_a_definition_is_started_by_its_id(bench: SchedulerBench) -> None:
    schedule = bench.add()
    wait_for(lambda: bench.ledger.write([Update(Schedule, schedule.id, {"definition_id": "def_1"})]))
    bench.sweep()
    assert (bench.requests[0].graph, bench.requests[0].definition_id) == (None, "def_1")


def test_there_is_no_next_time_without_schedules(bench: SchedulerBench) -> None:
    assert bench.sweep() is None
    bench.add(paused=True)
    assert bench.sweep() is None


def test_the_next_time_is_the_earliest_of_all_schedules(bench: SchedulerBench) -> None:
    bench.add()
    bench.add(name="soon", cron="5 * * * *")
    assert bench.sweep(timedelta(0)) == bench.clock.now() + timedelta(minutes=5)


def test_many_schedules_due_at_once_all_start(bench: SchedulerBench) -> None:
    for number in range(130):
        bench.add(name=f"s{number}")
    due = bench.sweep()
    while due is not None and due <= bench.clock.now():
        due = bench.sweep(timedelta(0))
    assert len(bench.runs()) == 130


def test_missed_times_of_a_pause_are_not_caught_up(bench: SchedulerBench) -> None:
    schedule = bench.add(catch_up="all", overlap="allow")
    asyncio.run(pause_schedule(bench.ledger, "default", schedule.id, bench.clock.now()))
    bench.sweep(50 * HOUR)
    asyncio.run(resume_schedule(bench.ledger, "default", schedule.id, bench.clock.now()))
    bench.sweep(HOUR / 2)
    assert bench.runs() == []
    bench.sweep(HOUR / 2)
    assert len(bench.runs()) == 1


def test_a_removed_schedule_starts_nothing(bench: SchedulerBench) -> None:
    schedule = bench.add()
    asyncio.run(remove_schedule(bench.ledger, "default", schedule.id))
    bench.sweep()
    assert bench.runs() == []


# -- missed times


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", []), ("last", ["15:00"]), ("all", ["13:00", "14:00", "15:00"])],
)
def test_missed_times_are_caught_up_as_configured(bench: SchedulerBench, catch_up: str, expected: list[str]) -> None:
    bench.add(catch_up=catch_up, overlap="allow")
    assert bench.sweep(3.5 * HOUR) == bench.clock.now() + HOUR / 2
    assert bench.started_times() == [f"2026-03-02T{item}:00Z" for item in expected]


def test_at_most_a_hundred_missed_times_are_caught_up(bench: SchedulerBench) -> None:
    bench.add(catch_up="all", overlap="allow")
    bench.sweep(400 * HOUR)
    assert len(bench.runs()) == 100


def test_a_daily_run_starts_once_in_a_repeated_hour(ledger: Ledger, new_run: Runs, now: datetime) -> None:
    bench = SchedulerBench(ledger, new_run, now.replace(month=10, day=24, hour=20))
    bench.add(cron="30 2 * * *", timezone="Europe/Berlin")
    for _ in range(10):
        bench.sweep(HOUR)
    assert bench.started_times() == ["2026-10-25T00:30:00Z"]


# -- overlapping runs


def test_overlap_skip_starts_no_run_while_the_last_is_unfinished(bench: SchedulerBench) -> None:
    bench.add(overlap="skip")
    bench.sweep()
    first = bench.schedule().last_run_id
    assert bench.sweep() == bench.clock.now() + HOUR
    assert (len(bench.runs()), bench.schedule().last_run_id) == (1, first)
    bench.end_runs(RunStatus.FAILED)
    bench.sweep()
    assert len(bench.runs()) == 2


def test_enqueued_runs_have_the_sequence_of_their_schedule(bench: SchedulerBench) -> None:
    schedule = bench.add(overlap="enqueue")
    bench.sweep()
    bench.sweep()
    assert [item.sequence for item in bench.requests] == [f"schedule:{schedule.id}"] * 2
    assert len(bench.runs()) == 2


def test_overlapping_runs_have_no_queue(bench: SchedulerBench) -> None:
    bench.add(overlap="allow")
    bench.sweep()
    bench.sweep()
    assert [item.sequence for item in bench.requests] == [None, None]


def test_overlap_cancel_cancels_the_last_run(bench: SchedulerBench) -> None:
    bench.add(overlap="cancel")
    bench.sweep()
    first = bench.schedule().last_run_id
    bench.sweep()
    assert bench.cancelled == [first]
    assert [run.status for run in bench.runs()] == [RunStatus.CANCELLED, RunStatus.PENDING]


def test_a_run_that_ends_while_it_is_cancelled_does_not_block_the_next(bench: SchedulerBench) -> None:
    bench.add(overlap="cancel")
    bench.sweep()

    async def complete_first(runs: Sequence[Run]) -> Cancellation:
        completed = {"status": RunStatus.COMPLETED}
        await aresolve(bench.ledger.write([Update(Run, run.id, completed) for run in runs]))
        return await bench.prepare_cancellation(runs)

    bench.scheduler = Scheduler(bench.ledger, bench.prepare, complete_first)
    bench.sweep()
    assert [run.status for run in bench.runs()] == [RunStatus.COMPLETED, RunStatus.PENDING]
    assert bench.cancelled == []


def test_a_run_that_cannot_start_cancels_no_other(bench: SchedulerBench) -> None:
    bench.add(overlap="cancel")
    bench.sweep()
    bench.failure = NotFound("Graph 'report' does not exist.")
    bench.sweep()
    bench.failure = None
    prepare = bench.prepare

    async def prepare_conflict(workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        run, changes = await prepare(workspace_id, request, now)
        return run, [*changes, Update(Run, "run_none", {})]

    bench.scheduler = Scheduler(bench.ledger, prepare_conflict, bench.prepare_cancellation)
    bench.sweep()
    assert ([run.status for run in bench.runs()], bench.cancelled) == ([RunStatus.PENDING], [])


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
def test_a_deleted_last_run_does_not_block_the_next(bench: SchedulerBench, overlap: str) -> None:
    bench.add(overlap=overlap)
    bench.sweep()
    last_run = where(id=bench.schedule().last_run_id)
    wait_for(lambda: bench.ledger.write([Delete(Run, last_run)]))
    bench.sweep()
    assert len(bench.runs()) == 1


# -- failures


def test_a_run_that_cannot_start_is_logged_and_the_next_is_tried(
    bench: SchedulerBench, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = bench.add()
    bench.failure = NotFound("Graph 'report' does not exist.")
    with caplog.at_level(logging.WARNING, logger="statewright.service"):
        assert bench.sweep() == bench.clock.now() + HOUR
    (record,) = caplog.records
    assert (
        "'hourly' could not start its run for 2026-03-02T13:00:00Z: Graph 'report' does not exist"
        in record.getMessage()
    )
    assert vars(record)["schedule_id"] == schedule.id
    assert (bench.runs(), bench.schedule().last_at) == ([], None)
    bench.failure = None
    bench.sweep()
    assert bench.started_times() == ["2026-03-02T14:00:00Z"]


def test_a_schedule_that_cannot_start_does_not_delay_others(
    bench: SchedulerBench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.add(name="broken", graph="gone")
    bench.add(name="intact")
    prepare = bench.prepare

    async def prepare_known_graphs(workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        if request.graph == "gone":
            raise RuntimeError("a bug")
        return await prepare(workspace_id, request, now)

    bench.scheduler = Scheduler(bench.ledger, prepare_known_graphs, bench.prepare_cancellation)
    bench.sweep()
    assert [run.graph for run in bench.runs()] == ["report"]
    assert "a bug" in caplog.text


def test_no_run_is_lost_while_the_ledger_is_unavailable(bench: SchedulerBench) -> None:
    bench.add()
    bench.failure = StorageUnavailable("gone for a while")
    with pytest.raises(StorageUnavailable):
        bench.sweep()
    bench.failure = None
    bench.sweep(timedelta(0))
    assert bench.started_times() == ["2026-03-02T13:00:00Z"]


def test_a_run_with_the_same_key_is_not_started_again(bench: SchedulerBench, caplog: pytest.LogCaptureFixture) -> None:
    schedule = bench.add()
    bench.sweep()
    back = {"next_at": schedule.next_at}
    wait_for(lambda: bench.ledger.write([Update(Schedule, schedule.id, back)]))
    bench.end_runs()
    assert bench.sweep(timedelta(0)) == bench.clock.now() + HOUR
    assert len(bench.runs()) == 1
    assert caplog.records == []


def test_a_conflict_at_the_start_is_retried(bench: SchedulerBench) -> None:
    bench.add()
    prepare, attempts = bench.prepare, []

    async def prepare_conflict_twice(
        workspace_id: str, request: StartRun, now: datetime
    ) -> tuple[Run, Sequence[Change]]:
        run, changes = await prepare(workspace_id, request, now)
        attempts.append(run.id)
        guard = [] if len(attempts) == 3 else [Update(Run, "run_none", {})]
        return run, [*changes, *guard]

    bench.scheduler = Scheduler(bench.ledger, prepare_conflict_twice, bench.prepare_cancellation)
    bench.sweep()
    assert [run.id for run in bench.runs()] == [attempts[2]]


def test_a_permanent_conflict_is_logged(bench: SchedulerBench, caplog: pytest.LogCaptureFixture) -> None:
    bench.add()

    async def prepare_conflict(workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        raise RecordConflict("workflow_runs", "run_none")

    bench.scheduler = Scheduler(bench.ledger, prepare_conflict, bench.prepare_cancellation)
    assert bench.sweep() == bench.clock.now() + HOUR
    assert len(caplog.records) == 1


def test_an_invalid_schedule_is_checked_again_later(bench: SchedulerBench, caplog: pytest.LogCaptureFixture) -> None:
    schedule = bench.add()
    wait_for(lambda: bench.ledger.write([Update(Schedule, schedule.id, {"timezone": "Mars/Base"})]))
    assert bench.sweep() == bench.clock.now() + HOUR
    assert "Mars/Base" in caplog.text


# -- concurrency and crashes


def test_concurrent_schedulers_start_one_run_for_each_time(bench: SchedulerBench) -> None:
    bench.add(catch_up="all", overlap="allow")
    other = bench.new_scheduler()
    bench.clock.advance(20.5 * HOUR)

    async def sweep_all() -> None:
        await asyncio.gather(*(item.sweep(bench.clock.now()) for item in (bench.scheduler, other) * 3))

    asyncio.run(sweep_all())
    while (due := bench.sweep(timedelta(0))) is not None and due <= bench.clock.now():
        pass
    expected = [(bench.clock.now() - HOUR * (hours + 0.5)).strftime("%Y-%m-%dT%H:%M:%SZ") for hours in range(20)]
    assert sorted(bench.started_times()) == sorted(expected)


def test_concurrent_threads_start_one_run_for_each_time(bench: SchedulerBench) -> None:
    for number in range(4):
        bench.add(name=f"every-minute-{number}", cron="* * * * *", overlap="allow", catch_up="all")
    start = bench.clock.now()

    def sweep_every_minute() -> None:
        scheduler = bench.new_scheduler()
        for minute in range(1, 16):
            asyncio.run(scheduler.sweep(start + timedelta(minutes=minute)))

    threads = [threading.Thread(target=sweep_every_minute) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [f"{start + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(1, 16)]
    assert sorted(bench.started_times()) == sorted(expected * 4)


def test_pausing_a_schedule_while_its_run_starts_prevents_the_run(bench: SchedulerBench) -> None:
    schedule = bench.add()
    prepare = bench.prepare

    async def pause_and_prepare(workspace_id: str, request: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        await change_schedule(bench.ledger, "default", schedule.id, {"paused": True}, now)
        return await prepare(workspace_id, request, now)

    bench.scheduler = Scheduler(bench.ledger, pause_and_prepare, bench.prepare_cancellation)
    assert bench.sweep() is None
    assert bench.runs() == []


class Crash(BaseException):
    """The process dies."""


class CrashingLedger(InMemoryLedger):
    """A ledger whose process dies before or after one of its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_left: int | None = None
        self.writes_last = False

    def write(self, changes: Sequence[Change]) -> None:
        if self.writes_left is None:
            return super().write(changes)
        self.writes_left -= 1
        if self.writes_left < 0 and not self.writes_last:
            raise Crash
        super().write(changes)
        if self.writes_left < 0:
            raise Crash
        return None


@pytest.mark.parametrize("writes_last", [False, True])
@pytest.mark.parametrize("successful_writes", range(6))
def test_a_crash_at_any_write_leaves_one_run_for_each_time(
    new_run: Runs, now: datetime, successful_writes: int, writes_last: bool
) -> None:
    ledger = CrashingLedger()
    bench = SchedulerBench(ledger, new_run, now)
    bench.add(catch_up="all", overlap="allow")
    bench.add(name="other", catch_up="last")
    ledger.writes_left, ledger.writes_last = successful_writes, writes_last
    with suppress(Crash):
        bench.sweep(4.5 * HOUR)
    ledger.writes_left = None
    bench.scheduler = bench.new_scheduler()
    bench.sweep(timedelta(0))
    hours = [f"2026-03-02T{hour}:00:00Z" for hour in (13, 14, 15, 16)]
    assert sorted(bench.started_times()) == sorted([*hours, hours[-1]])


def test_on_started_is_called_once_a_run_is_written(new_run: Runs, now: datetime) -> None:
    ledger = InMemoryLedger()
    bench = SchedulerBench(ledger, new_run, now)
    bench.add()
    seen: list[Run | None] = []

    def record_run(run: Run) -> None:
        seen.append(ledger.get(Run, run.id))

    bench.scheduler = Scheduler(ledger, bench.prepare, bench.prepare_cancellation, on_started=record_run)
    bench.sweep()
    assert seen == bench.runs()
