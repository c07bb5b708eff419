"""A worker claims due runs up to its capacity, keeps its lease, and releases its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.clock import Alarm
from statewright.errors import StorageUnavailable
from statewright.runs import Advance, Condition, Delete, Insert, Ledger, Run, RunStatus, Worker, where
from statewright.service.context.service_context import ServiceSettings
from statewright.service.engine.worker import RunWorker
from statewright.service.operations.starting import claimed
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Attempt:
    """Ends its run when it is allowed to, or releases it on request."""

    def __init__(self, run: Run, ledger: Ledger, go: asyncio.Event) -> None:
        self.run_id, self.claim, self.run, self._ledger, self._go = run.id, run.claim, run, ledger, go
        self.compared: list[Any] = []
        self.released = False

    async def advance(self) -> None:
        await self._go.wait()
        ends: dict[str, Any] = {"claim": None, "worker_id": None, "status": RunStatus.COMPLETED}
        given_back = {"claim": None, "worker_id": None, "due_at": self.run.created_at}
        guard = [Condition("claim", "=", self.run.claim)]
        change = Advance(self.run_id, self.run.created_at, given_back if self.released else ends, (), guard)
        await aresolve(self._ledger.write([change]))

    def release(self) -> None:
        self.released = True
        self._go.set()

    def abandon(self) -> None:
        self.release()

    def check_record(self, record: Run | None) -> None:
        self.compared.append(record)


class Workshop:
    """A worker with scripted attempts."""

    def __init__(self, ledger: Ledger, clock: FakeClock, **settings: Any) -> None:
        self.ledger, self.clock, self.go = ledger, clock, asyncio.Event()
        self.attempts: list[Any] = []
        self.worker = RunWorker(ledger, clock, ServiceSettings(**settings), self._attempt)

    def _attempt(self, run: Run) -> Any:
        self.attempts.append(Attempt(run, self.ledger, self.go))
        return self.attempts[-1]

    async def find(self, kind: Any, **values: Any) -> list[Any]:
        return list(await aresolve(self.ledger.find(kind, where(**values))))

    async def begun_with(self, count: int) -> None:
        """Wait until the worker has begun with so many runs."""
        await until(lambda: len(self.attempts) >= count)


class RecordingClock(FakeClock):
    """A clock that records the requested delays."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        self.waits.append(seconds)
        return super().call_later(seconds, callback)

    async def beat(self) -> None:
        """Let ten seconds pass, a third of a lease, and wait for the heartbeat."""
        before = self.waits.count(10)
        self.advance(10)
        await until(lambda: self.waits.count(10) > before)


@asynccontextmanager
async def working(ledger: Ledger, clock: RecordingClock, **settings: Any) -> AsyncIterator[Workshop]:
    workshop = Workshop(ledger, clock, **settings)
    work = asyncio.create_task(workshop.worker.work())
    await until(lambda: len(clock.waits) >= 2)  # it waits for work, and for the first heartbeat
    try:
        yield workshop
    finally:
        await workshop.worker.drain(1)
        await work


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    for _ in range(2000):
        if is_true():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("The condition did not become true.")


def worker(record_id: str, clock: FakeClock, *, seconds: float) -> Worker:
    """Return the record of a worker on another machine, with a lease of so many seconds."""
    return Worker(
        id=record_id, place="elsewhere", pid=1, process_started="", capacity=1,
        until=clock.now() + timedelta(seconds=seconds), started_at=clock.now(),
    )  # fmt: skip


async def test_claims_do_not_exceed_the_capacity(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    runs = [new_run(id=f"run_{n}", due_at=clock.now()) for n in range(5)]
    await aresolve(ledger.write([Insert(run) for run in runs]))
    async with working(ledger, clock, capacity=2) as workshop:
        assert ([attempt.run_id for attempt in workshop.attempts], workshop.worker.active_runs) == (
            ["run_0", "run_1"],
            2,
        )
        assert not workshop.worker.has_room
        assert workshop.worker.attempt_at("run_0") is workshop.attempts[0]
        workshop.go.set()
        await workshop.begun_with(5)
        await until(lambda: not workshop.worker.active_runs and workshop.worker.has_room)
        assert sorted(attempt.run_id for attempt in workshop.attempts) == [run.id for run in runs]
        assert workshop.worker.attempt_at("run_0") is None


async def test_a_run_that_is_due_later_is_claimed_then(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now() + timedelta(seconds=0.5)))]))
    async with working(ledger, clock, look_every=60) as workshop:
        assert workshop.attempts == []
        clock.advance(timedelta(seconds=0.5))
        await workshop.begun_with(1)
        workshop.go.set()


async def test_a_run_with_a_reservation_begins_at_once(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    async with working(ledger, RecordingClock(), look_every=60) as workshop:
        run = claimed(new_run(), workshop.worker.id)
        reservation = workshop.worker.reserve()
        assert reservation is not None
        await aresolve(ledger.write([Insert(run)]))
        workshop.worker.settle(reservation, run)
        await workshop.begun_with(1)
        assert [attempt.run.claim for attempt in workshop.attempts] == [run.claim]
        workshop.go.set()


async def test_reserved_capacity_is_kept_until_it_is_settled(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, capacity=2, look_every=1) as workshop:
        first, second, third = [workshop.worker.reserve() for _ in range(3)]
        assert (first is not None, second is not None, third) == (True, True, None)
        assert first is not None
        assert second is not None
        due = [new_run(id=f"run_{n}", due_at=clock.now()) for n in range(3)]
        await aresolve(ledger.write([Insert(item) for item in due]))
        await wait_for_poll(workshop, clock)
        assert workshop.attempts == []
        workshop.worker.settle(first, None)
        await workshop.begun_with(1)
        await wait_for_poll(workshop, clock)
        assert ([attempt.run_id for attempt in workshop.attempts], workshop.worker.reserve()) == (["run_0"], None)
        mine = claimed(new_run(id="run_9"), workshop.worker.id)
        await aresolve(ledger.write([Insert(mine)]))
        workshop.worker.settle(second, mine)
        await workshop.begun_with(2)
        await wait_for_poll(workshop, clock)
        assert [attempt.run_id for attempt in workshop.attempts] == ["run_0", "run_9"]
        workshop.go.set()
        await workshop.begun_with(4)


async def wait_for_poll(workshop: Workshop, clock: RecordingClock) -> None:
    """Wait until the worker has polled for work once more."""
    before = len(clock.waits)
    workshop.worker.wake()
    await until(lambda: len(clock.waits) > before)


async def test_a_worker_renews_its_lease_and_deletes_its_record_at_the_end(ledger: Ledger) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        [record] = await workshop.find(Worker)
        assert (record.id, record.until) == (workshop.worker.id, clock.now() + timedelta(seconds=30))
        await clock.beat()
        [record] = await workshop.find(Worker)
        assert record.until == clock.now() + timedelta(seconds=30)
    assert await workshop.find(Worker) == []
    assert not workshop.worker.has_room


async def test_the_runs_of_a_lost_worker_are_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    gone, alive = worker("gone", clock, seconds=5), worker("alive", clock, seconds=60)
    held = [
        new_run(claim="a", worker_id="gone", status=RunStatus.RUNNING, begun=True),
        new_run(claim="b", worker_id="gone"),
    ]
    others = new_run(claim="c", worker_id="alive")
    await aresolve(ledger.write([Insert(item) for item in (gone, alive, *held, others)]))
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        assert workshop.attempts == []
        await clock.beat()
        await workshop.begun_with(2)
        assert sorted(attempt.run_id for attempt in workshop.attempts) == sorted(run.id for run in held)
        assert [run.claim for run in await workshop.find(Run, id=others.id)] == ["c"]
        assert {item.id for item in await workshop.find(Worker)} == {"alive", workshop.worker.id}
        events = [[event.type for event in await aresolve(ledger.events(run.id))] for run in held]
        assert events == [["WORKFLOW_RESUMED"], []]
        workshop.go.set()


async def test_a_claim_of_an_unregistered_worker_is_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    before = new_run(id="run_1", claim="a", worker_id="long gone", status=RunStatus.RUNNING, begun=True)
    await aresolve(ledger.write([Insert(before)]))
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        assert [attempt.run_id for attempt in workshop.attempts] == ["run_1"]
        assert [event.payload for event in await aresolve(ledger.events("run_1"))] == [{"reason": "worker lost"}]
        later = new_run(id="run_2", claim="b", worker_id="gone too", status=RunStatus.RUNNING)
        await aresolve(ledger.write([Insert(later)]))
        await clock.beat()
        await workshop.begun_with(2)
        assert [attempt.run_id for attempt in workshop.attempts] == ["run_1", "run_2"]
        workshop.go.set()


async def test_a_claim_without_a_worker_is_kept(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run = new_run(claim="retention", status=RunStatus.COMPLETED)
    await aresolve(ledger.write([Insert(run)]))
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        await clock.beat()
        assert [(run.claim, run.version) for run in await workshop.find(Run)] == [("retention", run.version)]


async def test_a_worker_that_was_considered_lost_registers_again(ledger: Ledger) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        await aresolve(ledger.write([Delete(Worker, where(id=workshop.worker.id))]))
        await clock.beat()
        [record] = await workshop.find(Worker)
        assert (record.id, record.until) == (workshop.worker.id, clock.now() + timedelta(seconds=30))


async def test_a_worker_that_registers_during_the_search_for_lost_ones_keeps_its_runs(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    records = [worker("new", clock, seconds=60), new_run(id="run_1", claim="its own", worker_id="new")]
    busy: Any = ArrivingWorkerLedger(ledger, records)
    async with working(busy, clock, lease=30, look_every=60) as workshop:
        [run] = await workshop.find(Run, id="run_1")
        assert (run.claim, run.version) == ("its own", 1)


class ArrivingWorkerLedger:
    """A ledger in which a worker registers and claims a run while another one searches for lost workers."""

    def __init__(self, ledger: Any, records: list[Any]) -> None:
        self._ledger, self._records, self._looks = ledger, records, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, kind: Any, *args: Any, **options: Any) -> Any:
        if kind is Worker:
            self._poll_once()
        return self._ledger.find(kind, *args, **options)

    def groups(self, *args: Any, **options: Any) -> Any:
        self._poll_once()
        return self._ledger.groups(*args, **options)

    def _poll_once(self) -> None:
        self._looks += 1
        if self._looks == 2:
            written = self._ledger.write([Insert(record) for record in self._records])
            if hasattr(written, "result"):
                written.result()


async def test_a_worker_has_no_room_before_it_is_registered(ledger: Ledger) -> None:
    known: list[bool] = []

    class Watched(ArrivingWorkerLedger):
        def write(self, changes: Any) -> Any:
            if isinstance(changes[0], Insert) and isinstance(changes[0].record, Worker):
                known.append(workshop.worker.has_room)
            return ledger.write(changes)

    clock = RecordingClock()
    watched: Any = Watched(ledger, [])
    workshop = Workshop(watched, clock)
    work = asyncio.create_task(workshop.worker.work())
    await until(lambda: len(clock.waits) >= 2)
    result = (known, workshop.worker.has_room)
    await workshop.worker.drain(1)
    await work
    assert result == ([False], True)


async def test_a_heartbeat_checks_the_records_of_claimed_runs(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run = new_run(due_at=clock.now())
    await aresolve(ledger.write([Insert(run)]))
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        await aresolve(ledger.write([Advance(run.id, clock.now(), {"settings": {"pause": True}})]))
        await clock.beat()
        [attempt] = workshop.attempts
        assert [result.settings for result in attempt.compared] == [{"pause": True}]
        workshop.go.set()


async def test_a_draining_worker_releases_its_runs(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run, later = new_run(due_at=clock.now()), new_run(due_at=clock.now() + timedelta(hours=1))
    await aresolve(ledger.write([Insert(run), Insert(later)]))
    async with working(ledger, clock) as workshop:
        assert workshop.worker.active_runs == 1
    [result] = await workshop.find(Run, id=run.id)
    assert (result.claim, result.worker_id, result.status) == (None, None, RunStatus.PENDING)
    assert workshop.attempts[0].released


async def test_a_failed_query_for_work_is_repeated(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
    sick: Any = FailingReadsLedger(ledger)
    async with working(sick, clock, look_every=1) as workshop:
        assert (workshop.attempts, sick.asked > 0) == ([], True)
        sick.well = True
        clock.advance(timedelta(seconds=1))
        await workshop.begun_with(1)
        workshop.go.set()


class FailingReadsLedger:
    """A ledger whose reads fail until it has recovered."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.well, self.asked = ledger, False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def claim(self, *args: Any) -> Any:
        self.asked += 1
        if not self.well:
            raise ConnectionError("sick")
        return self._ledger.claim(*args)


async def test_an_unattended_claim_is_released_with_the_next_heartbeat(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        lost = claimed(new_run(status=RunStatus.RUNNING, begun=True), workshop.worker.id)
        await aresolve(ledger.write([Insert(lost)]))
        await clock.beat()
        await workshop.begun_with(1)
        assert [attempt.run_id for attempt in workshop.attempts] == [lost.id]
        assert workshop.attempts[0].claim != lost.claim
        assert [event.type for event in await aresolve(ledger.events(lost.id))] == ["WORKFLOW_RESUMED"]
        workshop.go.set()


async def test_a_run_whose_claim_is_in_flight_is_not_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        reservation = workshop.worker.reserve()
        assert reservation is not None
        run = claimed(new_run(), workshop.worker.id)
        await aresolve(ledger.write([Insert(run)]))
        await clock.beat()
        await clock.beat()
        assert [(run.claim, run.version) for run in await workshop.find(Run)] == [(run.claim, run.version)]
        workshop.worker.settle(reservation, run)
        await workshop.begun_with(1)
        await clock.beat()
        assert [attempt.claim for attempt in workshop.attempts] == [run.claim]
        workshop.go.set()


async def test_an_unattended_claim_is_released_although_others_are_in_flight(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with working(ledger, clock, lease=30, look_every=60) as workshop:
        before = workshop.worker.reserve()
        lost = claimed(new_run(id="run_lost"), workshop.worker.id)
        await aresolve(ledger.write([Insert(lost)]))
        await clock.beat()
        after = workshop.worker.reserve()
        assert before is not None
        assert after is not None
        workshop.worker.settle(before, None)
        await clock.beat()
        await workshop.begun_with(1)
        assert [attempt.run_id for attempt in workshop.attempts] == ["run_lost"]
        workshop.worker.settle(after, None)
        workshop.go.set()


class FailingCallsLedger:
    """A ledger whose calls fail by number, before or after they take effect."""

    def __init__(self, ledger: Any, fails: Callable[[str, int], str | None]) -> None:
        self._ledger, self._fails, self.calls = ledger, fails, 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        if name not in ("write", "find", "groups", "count", "claim", "get"):
            return method

        def called(*args: Any, **options: Any) -> Any:
            self.calls += 1
            when = self._fails(name, self.calls)
            if when == "before":
                raise StorageUnavailable("injected")
            answer = method(*args, **options)
            if when == "after":
                if hasattr(answer, "result"):
                    answer.result()
                raise StorageUnavailable("injected")
            return answer

        return called


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_failed_registration_is_retried(ledger: Ledger, new_run: Callable[..., Run], when: str) -> None:
    clock = RecordingClock()
    failing: Any = FailingCallsLedger(ledger, lambda name, number: when if number <= 3 else None)
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
    workshop = Workshop(failing, clock, look_every=1)
    work = asyncio.create_task(workshop.worker.work())
    while not workshop.attempts:
        before = len(clock.waits)
        clock.advance(1)
        await until(lambda before=before: bool(workshop.attempts) or len(clock.waits) > before)
    assert len(await workshop.find(Worker)) == 1
    workshop.go.set()
    await workshop.worker.drain(1)
    await work


async def test_heartbeats_continue_after_failures(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    sick = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if sick else None)
    async with working(failing, clock, lease=30, look_every=60) as workshop:
        await aresolve(ledger.write([Delete(Worker, where(id=workshop.worker.id))]))
        sick = True
        await clock.beat()
        await clock.beat()
        sick = False
        await clock.beat()
        assert [item.id for item in await workshop.find(Worker)] == [workshop.worker.id]


async def test_a_failed_heartbeat_is_retried_sooner(ledger: Ledger) -> None:
    clock = RecordingClock()
    sick = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if sick and name == "write" else None)
    async with working(failing, clock, lease=30, look_every=7) as workshop:
        sick, before = True, clock.waits.count(7)
        clock.advance(10)
        await until(lambda: clock.waits.count(7) == before + 2)  # it rests again, and its heart beats then
        sick = False
        clock.advance(7)
        await until(lambda: clock.waits.count(10) == 2)
        [record] = await workshop.find(Worker)
        assert record.until == clock.now() + timedelta(seconds=30)


async def test_a_cancelled_worker_sends_no_heartbeats(ledger: Ledger) -> None:
    clock = RecordingClock()
    workshop = Workshop(ledger, clock, lease=30, look_every=60)
    before = asyncio.all_tasks()
    work = asyncio.create_task(workshop.worker.work())
    await until(lambda: len(clock.waits) >= 2)
    work.cancel()
    await asyncio.wait([work])
    assert asyncio.all_tasks() == before
    await workshop.worker.drain(1)
    assert await workshop.find(Worker) == []


async def test_a_worker_stops_although_its_record_cannot_be_deleted(ledger: Ledger) -> None:
    clock = RecordingClock()
    sick = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if sick and name == "write" else None)
    async with working(failing, clock, lease=30, look_every=60) as workshop:
        sick = True
    assert [item.id for item in await workshop.find(Worker)] == [workshop.worker.id]
