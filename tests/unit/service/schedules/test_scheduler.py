"""The scheduler starts one run for each time, also with concurrent processes and crashes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
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


class World:
    """A ledger with one service on it, which starts and cancels runs."""

    def __init__(self, ledger: Ledger, new_run: Runs, now: datetime) -> None:
        self.ledger = ledger
        self.new_run = new_run
        self.clock = FakeClock(now)
        self.wanted: list[StartRun] = []
        self.cancelled: list[str] = []
        self.told: list[str] = []
        self.failure: Exception | None = None
        self.scheduler = self.another()

    def another(self) -> Scheduler:
        return Scheduler(self.ledger, self.prepare, self.cancelling, on_started=lambda run: self.told.append(run.id))

    async def prepare(self, workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        self.wanted.append(wanted)
        if self.failure is not None:
            raise self.failure
        run = self.new_run(
            workspace_id=workspace_id,
            graph=wanted.graph or "defined",
            idempotency_key=wanted.idempotency_key,
            source=wanted.source,
            metadata=dict(wanted.metadata),
            created_at=now,
            due_at=now,
        )
        await asyncio.sleep(0)
        return run, [Insert(run)]

    async def cancelling(self, runs: Sequence[Run]) -> Cancellation:
        ended = {"status": RunStatus.CANCELLED}
        ids = [run.id for run in runs]
        changes = [Update(Run, run.id, ended, where(version=run.version)) for run in runs]
        return Cancellation(changes, lambda: self.cancelled.extend(ids))

    # -- without an event loop

    def add(self, **values: Any) -> Schedule:
        new = NewSchedule(**{"name": "hourly", "cron": "0 * * * *", "graph": "report", **values})
        return asyncio.run(add_schedule(self.ledger, "default", new, self.clock.now()))

    def sweep(self, after: timedelta = HOUR) -> datetime | None:
        self.clock.advance(after)
        return asyncio.run(self.scheduler.sweep(self.clock.now()))

    def started(self) -> list[str]:
        """For which times there are runs."""
        return [run.metadata["scheduledFor"] for run in self.runs()]

    def runs(self) -> list[Run]:
        return ask(lambda: self.ledger.find(Run, order=Order("created_at")))

    def end(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        for run in self.runs():
            ask(lambda run=run: self.ledger.write([Update(Run, run.id, {"status": status})]))

    def schedule(self) -> Schedule:
        return ask(lambda: self.ledger.find(Schedule))[0]


def ask(call: Callable[[], Any]) -> Any:
    async def asked() -> Any:
        return await aresolve(call())

    return asyncio.run(asked())


@pytest.fixture
def world(ledger: Ledger, new_run: Runs, now: datetime) -> World:
    return World(ledger, new_run, now)


# -- what is started


def test_due_runs_are_started(world: World) -> None:
    schedule = world.add(input={"n": 1}, tags=["nightly"], metadata={"team": "ops"})
    assert world.sweep(HOUR / 2) == schedule.next_at
    assert world.runs() == []
    assert world.sweep(HOUR / 2) == world.clock.now() + HOUR
    (wanted,) = world.wanted
    assert wanted == StartRun(
        graph="report",
        input={"n": 1},
        idempotency_key=f"schedule:{schedule.id}:2026-03-02T13:00:00Z",
        tags=["nightly"],
        metadata={"team": "ops", "scheduledFor": "2026-03-02T13:00:00Z"},
        source=f"schedule:{schedule.id}",
    )
    (run,) = world.runs()
    assert world.told == [run.id]
    assert (world.schedule().last_run_id, world.schedule().last_at) == (run.id, schedule.next_at)


def test_a_version_is_started_by_its_id(world: World) -> None:
    schedule = world.add()
    ask(lambda: world.ledger.write([Update(Schedule, schedule.id, {"definition_id": "def_1"})]))
    world.sweep()
    assert (world.wanted[0].graph, world.wanted[0].definition_id) == (None, "def_1")


def test_there_is_no_next_time_without_schedules(world: World) -> None:
    assert world.sweep() is None
    world.add(paused=True)
    assert world.sweep() is None


def test_the_next_time_is_that_of_all_schedules(world: World) -> None:
    world.add()
    world.add(name="soon", cron="5 * * * *")
    assert world.sweep(timedelta(0)) == world.clock.now() + timedelta(minutes=5)


def test_many_that_are_due_at_once_are_all_started(world: World) -> None:
    for number in range(130):
        world.add(name=f"s{number}")
    again = world.sweep()
    while again is not None and again <= world.clock.now():
        again = world.sweep(timedelta(0))
    assert len(world.runs()) == 130


def test_missed_times_of_a_pause_are_not_caught_up(world: World) -> None:
    schedule = world.add(catch_up="all", overlap="allow")
    asyncio.run(pause_schedule(world.ledger, "default", schedule.id, world.clock.now()))
    world.sweep(50 * HOUR)
    asyncio.run(resume_schedule(world.ledger, "default", schedule.id, world.clock.now()))
    world.sweep(HOUR / 2)
    assert world.runs() == []
    world.sweep(HOUR / 2)
    assert len(world.runs()) == 1


def test_a_removed_schedule_starts_nothing(world: World) -> None:
    schedule = world.add()
    asyncio.run(remove_schedule(world.ledger, "default", schedule.id))
    world.sweep()
    assert world.runs() == []


# -- what was missed


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [("none", []), ("last", ["15:00"]), ("all", ["13:00", "14:00", "15:00"])],
)
def test_missed_times_are_caught_up_as_configured(world: World, catch_up: str, expected: list[str]) -> None:
    world.add(catch_up=catch_up, overlap="allow")
    assert world.sweep(3.5 * HOUR) == world.clock.now() + HOUR / 2
    assert world.started() == [f"2026-03-02T{item}:00Z" for item in expected]


def test_at_most_a_hundred_are_caught_up(world: World) -> None:
    world.add(catch_up="all", overlap="allow")
    world.sweep(400 * HOUR)
    assert len(world.runs()) == 100


def test_a_daily_run_starts_once_in_a_repeated_hour(ledger: Ledger, new_run: Runs, now: datetime) -> None:
    world = World(ledger, new_run, now.replace(month=10, day=24, hour=20))
    world.add(cron="30 2 * * *", timezone="Europe/Berlin")
    for _ in range(10):
        world.sweep(HOUR)
    assert world.started() == ["2026-10-25T00:30:00Z"]


# -- beside runs that have not ended


def test_an_unfinished_run_skips_the_next(world: World) -> None:
    world.add(overlap="skip")
    world.sweep()
    first = world.schedule().last_run_id
    assert world.sweep() == world.clock.now() + HOUR
    assert (len(world.runs()), world.schedule().last_run_id) == (1, first)
    world.end(RunStatus.FAILED)
    world.sweep()
    assert len(world.runs()) == 2


def test_enqueued_runs_have_the_queue_of_their_schedule(world: World) -> None:
    schedule = world.add(overlap="enqueue")
    world.sweep()
    world.sweep()
    assert [item.queue for item in world.wanted] == [f"schedule:{schedule.id}"] * 2
    assert len(world.runs()) == 2


def test_overlapping_runs_have_no_queue(world: World) -> None:
    world.add(overlap="allow")
    world.sweep()
    world.sweep()
    assert [item.queue for item in world.wanted] == [None, None]


def test_the_last_run_is_cancelled_for_the_next(world: World) -> None:
    world.add(overlap="cancel")
    world.sweep()
    first = world.schedule().last_run_id
    world.sweep()
    assert world.cancelled == [first]
    assert [run.status for run in world.runs()] == [RunStatus.CANCELLED, RunStatus.PENDING]


def test_a_run_that_ends_while_it_is_cancelled_does_not_block_the_next(world: World) -> None:
    world.add(overlap="cancel")
    world.sweep()

    async def too_late(runs: Sequence[Run]) -> Cancellation:
        completed = {"status": RunStatus.COMPLETED}
        await aresolve(world.ledger.write([Update(Run, run.id, completed) for run in runs]))
        return await world.cancelling(runs)

    world.scheduler = Scheduler(world.ledger, world.prepare, too_late)
    world.sweep()
    assert [run.status for run in world.runs()] == [RunStatus.COMPLETED, RunStatus.PENDING]
    assert world.cancelled == []


def test_a_run_that_cannot_start_cancels_no_other(world: World) -> None:
    world.add(overlap="cancel")
    world.sweep()
    world.failure = NotFound("Graph 'report' does not exist.")
    world.sweep()
    world.failure = None
    prepare = world.prepare

    async def in_vain(workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        run, changes = await prepare(workspace_id, wanted, now)
        return run, [*changes, Update(Run, "run_none", {})]

    world.scheduler = Scheduler(world.ledger, in_vain, world.cancelling)
    world.sweep()
    assert ([run.status for run in world.runs()], world.cancelled) == ([RunStatus.PENDING], [])


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
def test_a_deleted_last_run_does_not_block_the_next(world: World, overlap: str) -> None:
    world.add(overlap=overlap)
    world.sweep()
    gone = where(id=world.schedule().last_run_id)
    ask(lambda: world.ledger.write([Delete(Run, gone)]))
    world.sweep()
    assert len(world.runs()) == 1


# -- what goes wrong


def test_a_run_that_cannot_start_is_logged_and_the_next_is_tried(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = world.add()
    world.failure = NotFound("Graph 'report' does not exist.")
    with caplog.at_level(logging.WARNING, logger="statewright.service"):
        assert world.sweep() == world.clock.now() + HOUR
    (record,) = caplog.records
    assert (
        "'hourly' could not start its run for 2026-03-02T13:00:00Z: Graph 'report' does not exist"
        in record.getMessage()
    )
    assert vars(record)["schedule_id"] == schedule.id
    assert (world.runs(), world.schedule().last_at) == ([], None)
    world.failure = None
    world.sweep()
    assert world.started() == ["2026-03-02T14:00:00Z"]


def test_a_schedule_that_cannot_start_does_not_delay_others(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add(name="broken", graph="gone")
    world.add(name="sound")
    prepare = world.prepare

    async def some(workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        if wanted.graph == "gone":
            raise RuntimeError("a bug")
        return await prepare(workspace_id, wanted, now)

    world.scheduler = Scheduler(world.ledger, some, world.cancelling)
    world.sweep()
    assert [run.graph for run in world.runs()] == ["report"]
    assert "a bug" in caplog.text


def test_no_run_is_lost_while_the_ledger_is_unavailable(world: World) -> None:
    world.add()
    world.failure = StorageUnavailable("gone for a while")
    with pytest.raises(StorageUnavailable):
        world.sweep()
    world.failure = None
    world.sweep(timedelta(0))
    assert world.started() == ["2026-03-02T13:00:00Z"]


def test_a_run_with_the_same_key_is_not_started_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    schedule = world.add()
    world.sweep()
    back = {"next_at": schedule.next_at}
    ask(lambda: world.ledger.write([Update(Schedule, schedule.id, back)]))
    world.end()
    assert world.sweep(timedelta(0)) == world.clock.now() + HOUR
    assert len(world.runs()) == 1
    assert caplog.records == []


def test_a_conflict_at_the_start_is_retried(world: World) -> None:
    world.add()
    prepare, tries = world.prepare, []

    async def in_vain_at_first(workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        run, changes = await prepare(workspace_id, wanted, now)
        tries.append(run.id)
        guard = [] if len(tries) == 3 else [Update(Run, "run_none", {})]
        return run, [*changes, *guard]

    world.scheduler = Scheduler(world.ledger, in_vain_at_first, world.cancelling)
    world.sweep()
    assert [run.id for run in world.runs()] == [tries[2]]


def test_a_permanent_conflict_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.add()

    async def in_vain(workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        raise RecordConflict("workflow_runs", "run_none")

    world.scheduler = Scheduler(world.ledger, in_vain, world.cancelling)
    assert world.sweep() == world.clock.now() + HOUR
    assert len(caplog.records) == 1


def test_an_invalid_schedule_is_checked_again_later(world: World, caplog: pytest.LogCaptureFixture) -> None:
    schedule = world.add()
    ask(lambda: world.ledger.write([Update(Schedule, schedule.id, {"timezone": "Mars/Base"})]))
    assert world.sweep() == world.clock.now() + HOUR
    assert "Mars/Base" in caplog.text


# -- several at once


def test_concurrent_schedulers_start_one_run_for_each_time(world: World) -> None:
    world.add(catch_up="all", overlap="allow")
    other = world.another()
    world.clock.advance(20.5 * HOUR)

    async def both() -> None:
        await asyncio.gather(*(item.sweep(world.clock.now()) for item in (world.scheduler, other) * 3))

    asyncio.run(both())
    while (again := world.sweep(timedelta(0))) is not None and again <= world.clock.now():
        pass
    expected = [(world.clock.now() - HOUR * (place + 0.5)).strftime("%Y-%m-%dT%H:%M:%SZ") for place in range(20)]
    assert sorted(world.started()) == sorted(expected)


def test_concurrent_threads_start_one_run_for_each_time(world: World) -> None:
    for number in range(4):
        world.add(name=f"every-minute-{number}", cron="* * * * *", overlap="allow", catch_up="all")
    begin = world.clock.now()

    def look() -> None:
        scheduler = world.another()
        for minute in range(1, 16):
            asyncio.run(scheduler.sweep(begin + timedelta(minutes=minute)))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    expected = [f"{begin + timedelta(minutes=minute):%Y-%m-%dT%H:%M:%SZ}" for minute in range(1, 16)]
    assert sorted(world.started()) == sorted(expected * 4)


def test_a_change_while_it_starts_wins(world: World) -> None:
    schedule = world.add()
    prepare = world.prepare

    async def slow(workspace_id: str, wanted: StartRun, now: datetime) -> tuple[Run, Sequence[Change]]:
        await change_schedule(world.ledger, "default", schedule.id, {"paused": True}, now)
        return await prepare(workspace_id, wanted, now)

    world.scheduler = Scheduler(world.ledger, slow, world.cancelling)
    assert world.sweep() is None
    assert world.runs() == []


class Crash(BaseException):
    """The process is gone."""


class MortalLedger(InMemoryLedger):
    """A ledger whose process dies before or after one of its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.after = False

    def write(self, changes: Sequence[Change]) -> None:
        if self.left is None:
            return super().write(changes)
        self.left -= 1
        if self.left < 0 and not self.after:
            raise Crash
        super().write(changes)
        if self.left < 0:
            raise Crash
        return None


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("survived", range(6))
def test_a_crash_at_any_write_leaves_one_run_for_each_time(
    new_run: Runs, now: datetime, survived: int, after: bool
) -> None:
    ledger = MortalLedger()
    world = World(ledger, new_run, now)
    world.add(catch_up="all", overlap="allow")
    world.add(name="other", catch_up="last")
    ledger.left, ledger.after = survived, after
    with suppress(Crash):
        world.sweep(4.5 * HOUR)
    ledger.left = None
    world.scheduler = world.another()
    world.sweep(timedelta(0))
    hours = [f"2026-03-02T{hour}:00:00Z" for hour in (13, 14, 15, 16)]
    assert sorted(world.started()) == sorted([*hours, hours[-1]])


def test_on_started_is_called_once_a_run_is_written(new_run: Runs, now: datetime) -> None:
    ledger = InMemoryLedger()
    world = World(ledger, new_run, now)
    world.add()
    seen: list[Run | None] = []

    def told(run: Run) -> None:
        seen.append(ledger.get(Run, run.id))

    world.scheduler = Scheduler(ledger, world.prepare, world.cancelling, on_started=told)
    world.sweep()
    assert seen == world.runs()


def test_a_schedule_read_twice_starts_one_run(world: World) -> None:
    """What was read before another took it is refused as a whole: no run without its schedule, and the reverse."""
    schedule = world.add()
    world.sweep()
    stale = replace(schedule, version=1)
    guarded = Update(Schedule, stale.id, {"next_at": None}, where(version=stale.version))
    with pytest.raises(RecordConflict):
        ask(lambda: world.ledger.write([guarded, Insert(world.new_run())]))
    assert len(world.runs()) == 1
