"""A worker claims due runs up to its capacity, keeps its lease, and releases its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.clock import Alarm
from statewright.errors import StorageUnavailable
from statewright.futures import resolve
from statewright.runs import Advance, Condition, Delete, Insert, Ledger, Run, RunStatus, Update, Worker, where
from statewright.service.context.service_context import ServiceSettings
from statewright.service.engine.worker import RunWorker
from statewright.service.operations.starting import claimed
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ScriptedAttempt:
    """An attempt that ends its run when it may, or releases it on request."""

    def __init__(self, run: Run, ledger: Ledger, may_end: asyncio.Event) -> None:
        self.run_id, self.claim, self.run, self._ledger, self._may_end = run.id, run.claim, run, ledger, may_end
        self.checked_records: list[Any] = []
        self.released = False

    async def advance(self) -> None:
        await self._may_end.wait()
        end_values: dict[str, Any] = {"claim": None, "worker_id": None, "status": RunStatus.COMPLETED}
        release_values = {"claim": None, "worker_id": None, "due_at": self.run.created_at}
        guard = [Condition("claim", "=", self.run.claim)]
        change = Advance(self.run_id, self.run.created_at, release_values if self.released else end_values, (), guard)
        await aresolve(self._ledger.write([change]))

    def release(self) -> None:
        self.released = True
        self._may_end.set()

    def abandon(self) -> None:
        self.release()

    def check_record(self, record: Run | None) -> None:
        self.checked_records.append(record)


class WorkerBench:
    """A worker with scripted attempts."""

    def __init__(self, ledger: Ledger, clock: FakeClock, versions: Sequence[str] = (), **settings: Any) -> None:
        self.ledger, self.clock, self.may_end = ledger, clock, asyncio.Event()
        self.attempts: list[Any] = []
        self.worker = RunWorker(ledger, clock, ServiceSettings(**settings), self._attempt, versions)

    def _attempt(self, run: Run) -> Any:
        self.attempts.append(ScriptedAttempt(run, self.ledger, self.may_end))
        return self.attempts[-1]

    async def find(self, kind: Any, **values: Any) -> list[Any]:
        return list(await aresolve(self.ledger.find(kind, where(**values))))

    async def wait_for_attempts(self, count: int) -> None:
        """Wait until the worker has begun a number of attempts."""
        await wait_until(lambda: len(self.attempts) >= count)


class RecordingClock(FakeClock):
    """A clock that records the requested delays."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        self.delays.append(seconds)
        return super().call_later(seconds, callback)

    async def wait_for_heartbeat(self) -> None:
        """Let ten seconds pass, a third of a lease, and wait for the heartbeat."""
        before = self.delays.count(10)
        self.advance(10)
        await wait_until(lambda: self.delays.count(10) > before)


@asynccontextmanager
async def run_worker(ledger: Ledger, clock: RecordingClock, **settings: Any) -> AsyncIterator[WorkerBench]:
    bench = WorkerBench(ledger, clock, **settings)
    work = asyncio.create_task(bench.worker.work())
    await wait_until(lambda: len(clock.delays) >= 2)  # it waits for work and for the first heartbeat
    try:
        yield bench
    finally:
        await bench.worker.drain(1)
        await work


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("The condition did not become true.")


def worker(record_id: str, clock: FakeClock, *, seconds: float) -> Worker:
    """Return the record of a worker on another machine, with a lease of a number of seconds."""
    return Worker(
        id=record_id, place="elsewhere", pid=1, process_started="", capacity=1,
        until=clock.now() + timedelta(seconds=seconds), started_at=clock.now(),
    )  # fmt: skip


async def test_claims_do_not_exceed_the_capacity(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    runs = [new_run(id=f"run_{n}", due_at=clock.now()) for n in range(5)]
    await aresolve(ledger.write([Insert(run) for run in runs]))
    async with run_worker(ledger, clock, capacity=2) as bench:
        assert ([attempt.run_id for attempt in bench.attempts], bench.worker.active_runs) == (
            ["run_0", "run_1"],
            2,
        )
        assert not bench.worker.has_free_capacity
        assert bench.worker.attempt_at("run_0") is bench.attempts[0]
        bench.may_end.set()
        await bench.wait_for_attempts(5)
        await wait_until(lambda: not bench.worker.active_runs and bench.worker.has_free_capacity)
        assert sorted(attempt.run_id for attempt in bench.attempts) == [run.id for run in runs]
        assert bench.worker.attempt_at("run_0") is None


async def test_a_run_that_becomes_due_during_a_claim_is_claimed_at_once(
    ledger: Ledger, new_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = RecordingClock()
    claim, late = ledger.claim, [new_run(id="run_1", due_at=clock.now())]

    def claim_and_wake(worker_id: str, now: datetime, limit: int, **served: Any) -> Any:
        runs = resolve(claim(worker_id, now, limit, **served))
        if late:
            resolve(ledger.write([Insert(late.pop())]))
            bench.worker.wake()
        return runs

    async with run_worker(ledger, clock, capacity=8, poll_interval=60) as bench:
        monkeypatch.setattr(ledger, "claim", claim_and_wake)
        await aresolve(ledger.write([Insert(new_run(id="run_0", due_at=clock.now()))]))
        bench.worker.wake()
        await bench.wait_for_attempts(2)
        bench.may_end.set()


async def test_a_worker_makes_no_claim_that_would_find_nothing(
    ledger: Ledger, new_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first commits of runs that have begun would have to wait for it."""
    clock = RecordingClock()
    claim, limits = ledger.claim, list[int]()

    def counted(worker_id: str, now: datetime, limit: int, **served: Any) -> Any:
        limits.append(limit)
        return claim(worker_id, now, limit, **served)

    async with run_worker(ledger, clock, capacity=8, poll_interval=60) as bench:
        monkeypatch.setattr(ledger, "claim", counted)
        await aresolve(ledger.write([Insert(new_run(id="run_0", due_at=clock.now()))]))
        await wait_for_poll(bench, clock)
        assert (len(bench.attempts), limits) == (1, [4])
        run = claimed(new_run(id="run_1"), bench.worker.id)
        reservation = bench.worker.reserve()
        assert reservation is not None
        await aresolve(ledger.write([Insert(run)]))
        waits = len(clock.delays)
        bench.worker.settle(reservation, run)
        await wait_until(lambda: len(clock.delays) > waits)
        assert (len(bench.attempts), limits) == (2, [4])
        bench.may_end.set()


async def test_a_due_run_is_claimed_although_a_reservation_has_woken_the_worker(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, capacity=8, poll_interval=60) as bench:
        reservation = bench.worker.reserve()
        assert reservation is not None
        run = claimed(new_run(id="run_0"), bench.worker.id)
        await aresolve(ledger.write([Insert(run), Insert(new_run(id="run_1", due_at=clock.now()))]))
        bench.worker.settle(reservation, run)
        await bench.wait_for_attempts(2)
        bench.may_end.set()


async def test_a_run_is_claimed_when_it_is_due(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now() + timedelta(seconds=0.5)))]))
    async with run_worker(ledger, clock, poll_interval=60) as bench:
        assert bench.attempts == []
        clock.advance(timedelta(seconds=0.5))
        await bench.wait_for_attempts(1)
        bench.may_end.set()


async def test_a_run_with_a_reservation_begins_at_once(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    async with run_worker(ledger, RecordingClock(), poll_interval=60) as bench:
        run = claimed(new_run(), bench.worker.id)
        reservation = bench.worker.reserve()
        assert reservation is not None
        await aresolve(ledger.write([Insert(run)]))
        bench.worker.settle(reservation, run)
        await bench.wait_for_attempts(1)
        assert [attempt.run.claim for attempt in bench.attempts] == [run.claim]
        bench.may_end.set()


async def test_reserved_capacity_is_kept_until_it_is_settled(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, capacity=2, poll_interval=1) as bench:
        first, second, third = [bench.worker.reserve() for _ in range(3)]
        assert (first is not None, second is not None, third) == (True, True, None)
        assert first is not None
        assert second is not None
        due = [new_run(id=f"run_{n}", due_at=clock.now()) for n in range(3)]
        await aresolve(ledger.write([Insert(item) for item in due]))
        await wait_for_poll(bench, clock)
        assert bench.attempts == []
        bench.worker.settle(first, None)
        await bench.wait_for_attempts(1)
        await wait_for_poll(bench, clock)
        assert ([attempt.run_id for attempt in bench.attempts], bench.worker.reserve()) == (["run_0"], None)
        own_run = claimed(new_run(id="run_9"), bench.worker.id)
        await aresolve(ledger.write([Insert(own_run)]))
        bench.worker.settle(second, own_run)
        await bench.wait_for_attempts(2)
        await wait_for_poll(bench, clock)
        assert [attempt.run_id for attempt in bench.attempts] == ["run_0", "run_9"]
        bench.may_end.set()
        await bench.wait_for_attempts(4)


async def wait_for_poll(bench: WorkerBench, clock: RecordingClock) -> None:
    """Wake the worker, and wait until it has polled for work again."""
    before = len(clock.delays)
    bench.worker.wake()
    await wait_until(lambda: len(clock.delays) > before)


async def test_a_worker_renews_its_lease_and_deletes_its_record_at_the_end(ledger: Ledger) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        [record] = await bench.find(Worker)
        assert (record.id, record.until) == (bench.worker.id, clock.now() + timedelta(seconds=30))
        await clock.wait_for_heartbeat()
        [record] = await bench.find(Worker)
        assert record.until == clock.now() + timedelta(seconds=30)
    assert await bench.find(Worker) == []
    assert not bench.worker.has_free_capacity


async def test_the_runs_of_a_lost_worker_are_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    expired, alive = worker("expired", clock, seconds=5), worker("alive", clock, seconds=60)
    runs = [
        new_run(claim="a", worker_id="expired", status=RunStatus.RUNNING, begun=True),
        new_run(claim="b", worker_id="expired"),
    ]
    others = new_run(claim="c", worker_id="alive")
    await aresolve(ledger.write([Insert(item) for item in (expired, alive, *runs, others)]))
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        assert bench.attempts == []
        await clock.wait_for_heartbeat()
        await bench.wait_for_attempts(2)
        assert sorted(attempt.run_id for attempt in bench.attempts) == sorted(run.id for run in runs)
        assert [run.claim for run in await bench.find(Run, id=others.id)] == ["c"]
        assert {item.id for item in await bench.find(Worker)} == {"alive", bench.worker.id}
        events = [[event.type for event in await aresolve(ledger.events(run.id))] for run in runs]
        assert events == [["WORKFLOW_RESUMED"], []]
        bench.may_end.set()


async def test_a_claim_of_an_unregistered_worker_is_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    before = new_run(id="run_1", claim="a", worker_id="unregistered_1", status=RunStatus.RUNNING, begun=True)
    await aresolve(ledger.write([Insert(before)]))
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        assert [attempt.run_id for attempt in bench.attempts] == ["run_1"]
        assert [event.payload for event in await aresolve(ledger.events("run_1"))] == [{"reason": "worker lost"}]
        later = new_run(id="run_2", claim="b", worker_id="unregistered_2", status=RunStatus.RUNNING)
        await aresolve(ledger.write([Insert(later)]))
        await clock.wait_for_heartbeat()
        await bench.wait_for_attempts(2)
        assert [attempt.run_id for attempt in bench.attempts] == ["run_1", "run_2"]
        bench.may_end.set()


async def test_a_claim_without_a_worker_is_kept(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run = new_run(claim="retention", status=RunStatus.COMPLETED)
    await aresolve(ledger.write([Insert(run)]))
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        await clock.wait_for_heartbeat()
        assert [(run.claim, run.version) for run in await bench.find(Run)] == [("retention", run.version)]


async def test_a_worker_that_was_considered_lost_registers_again(ledger: Ledger) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        await aresolve(ledger.write([Delete(Worker, where(id=bench.worker.id))]))
        await clock.wait_for_heartbeat()
        [record] = await bench.find(Worker)
        assert (record.id, record.until) == (bench.worker.id, clock.now() + timedelta(seconds=30))


async def test_a_worker_that_registers_during_a_search_for_lost_workers_keeps_its_runs(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    records = [worker("new", clock, seconds=60), new_run(id="run_1", claim="own", worker_id="new")]
    ledger_with_arrival: Any = ArrivingWorkerLedger(ledger, records)
    async with run_worker(ledger_with_arrival, clock, lease=30, poll_interval=60) as bench:
        [run] = await bench.find(Run, id="run_1")
        assert (run.claim, run.version) == ("own", 1)


class ArrivingWorkerLedger:
    """A ledger in which a worker registers and claims a run while another worker searches for lost ones."""

    def __init__(self, ledger: Any, records: list[Any]) -> None:
        self._ledger, self._records, self._reads = ledger, records, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def find(self, kind: Any, *args: Any, **options: Any) -> Any:
        if kind is Worker:
            self._count_read()
        return self._ledger.find(kind, *args, **options)

    def groups(self, *args: Any, **options: Any) -> Any:
        self._count_read()
        return self._ledger.groups(*args, **options)

    def _count_read(self) -> None:
        self._reads += 1
        if self._reads == 2:
            written = self._ledger.write([Insert(record) for record in self._records])
            if hasattr(written, "result"):
                written.result()


async def test_a_worker_has_no_room_before_it_is_registered(ledger: Ledger) -> None:
    observed: list[bool] = []

    class ObservingLedger(ArrivingWorkerLedger):
        def write(self, changes: Any) -> Any:
            if isinstance(changes[0], Insert) and isinstance(changes[0].record, Worker):
                observed.append(bench.worker.has_free_capacity)
            return ledger.write(changes)

    clock = RecordingClock()
    observing: Any = ObservingLedger(ledger, [])
    bench = WorkerBench(observing, clock)
    work = asyncio.create_task(bench.worker.work())
    await wait_until(lambda: len(clock.delays) >= 2)
    result = (observed, bench.worker.has_free_capacity)
    await bench.worker.drain(1)
    await work
    assert result == ([False], True)


async def test_a_heartbeat_checks_the_records_of_claimed_runs(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run = new_run(due_at=clock.now())
    await aresolve(ledger.write([Insert(run)]))
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        await aresolve(ledger.write([Advance(run.id, clock.now(), {"settings": {"pause": True}})]))
        await clock.wait_for_heartbeat()
        [attempt] = bench.attempts
        assert [result.settings for result in attempt.checked_records] == [{"pause": True}]
        bench.may_end.set()


async def test_a_draining_worker_releases_its_runs(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    run, later = new_run(due_at=clock.now()), new_run(due_at=clock.now() + timedelta(hours=1))
    await aresolve(ledger.write([Insert(run), Insert(later)]))
    async with run_worker(ledger, clock) as bench:
        assert bench.worker.active_runs == 1
    [result] = await bench.find(Run, id=run.id)
    assert (result.claim, result.worker_id, result.status) == (None, None, RunStatus.PENDING)
    assert bench.attempts[0].released


async def test_a_run_that_loses_worker_after_worker_is_set_aside(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    lost = claimed(new_run(status=RunStatus.RUNNING, begun=True, losses=2), "wrk_lost")
    fresh = claimed(new_run(status=RunStatus.RUNNING, begun=True), "wrk_lost")
    await aresolve(ledger.write([Insert(lost), Insert(fresh), Insert(worker("wrk_lost", clock, seconds=-1))]))
    async with run_worker(ledger, clock, max_losses=3) as bench:
        [dead] = await bench.find(Run, id=lost.id)
        assert (dead.status, dead.losses, dead.claim, dead.due_at) == (RunStatus.FAILED, 3, None, None)
        assert dead.error["code"] == "WORKER_LOST"
        assert dead.error["message"].startswith("3 workers were lost while they advanced this run")
        assert await bench.find(Worker, id="wrk_lost") == []
        events = await aresolve(ledger.events(lost.id))
        assert events[-1].type == "WORKFLOW_FAILED"
        await bench.wait_for_attempts(1)
        assert [attempt.run_id for attempt in bench.attempts] == [fresh.id]
        assert bench.attempts[0].run.losses == 1
        bench.may_end.set()


async def test_a_worker_that_is_asked_to_drain_releases_its_runs_and_claims_no_more(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
    async with run_worker(ledger, clock) as bench:
        await bench.wait_for_attempts(1)
        await aresolve(ledger.write([Update(Worker, bench.worker.id, {"draining": True})]))
        await clock.wait_for_heartbeat()
        await wait_until(lambda: bench.worker.drain_request.done() and not bench.worker.active_runs)
        await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
        bench.worker.wake()
        await clock.wait_for_heartbeat()
        assert [attempt.released for attempt in bench.attempts] == [True]
        assert (bench.worker.has_free_capacity, bench.worker.is_full) == (False, True)


async def test_a_run_that_is_started_while_the_worker_accepts_a_drain_request_is_released(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, poll_interval=60) as bench:
        reservations = [bench.worker.reserve() for _ in range(3)]
        await aresolve(ledger.write([Update(Worker, bench.worker.id, {"draining": True})]))
        await clock.wait_for_heartbeat()
        assert bench.worker.drain_request.done()
        for reservation in reservations:
            assert reservation is not None
            run = claimed(new_run(), bench.worker.id)
            await aresolve(ledger.write([Insert(run)]))
            bench.worker.settle(reservation, run)
            for _ in range(1000):
                [released] = await bench.find(Run, id=run.id)
                if released.claim is None:
                    break
                await asyncio.sleep(0.005)
            assert (released.claim, released.status, bench.attempts) == (None, RunStatus.PENDING, [])
            assert released.due_at is not None


async def test_a_run_that_is_being_claimed_while_the_worker_accepts_a_drain_request_is_released(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    class DrainingLedger(FailingReadsLedger):
        """A ledger in which a drain request is accepted while a claim is in flight."""

        def claim(self, *args: Any, **served: Any) -> Any:
            runs = self._ledger.claim(*args, **served)
            bench.worker._accept_drain_request()
            return runs

    clock = RecordingClock()
    run = new_run(due_at=clock.now())
    await aresolve(ledger.write([Insert(run)]))
    draining: Any = DrainingLedger(ledger)
    bench = WorkerBench(draining, clock)
    work = asyncio.create_task(bench.worker.work())
    await wait_until(lambda: len(bench.attempts) == 1 and not bench.worker.active_runs)
    assert bench.attempts[0].released
    await bench.worker.drain(1)
    await work


@pytest.mark.parametrize(
    ("own", "others", "claimed"),
    [
        (["default"], [["gpu"]], ["default"]),
        (None, [["gpu"]], ["default", "slow"]),
        (["default", "gpu"], [["gpu"]], ["default"]),
        (["gpu", "slow"], [["gpu", "slow"]], []),
        (None, [["gpu"], ["default"]], ["slow"]),
        (["default"], [None], []),
        (None, [["gpu"], None], []),
        (None, [[]], ["default", "gpu", "slow"]),
    ],
)
async def test_runs_of_a_version_are_left_to_workers_that_serve_it_in_their_queue(
    ledger: Ledger, new_run: Callable[..., Run], own: Any, others: list[Any], claimed: list[str]
) -> None:
    clock = RecordingClock()
    workers = [
        replace(worker(f"wrk_{n}", clock, seconds=60), versions=["def_1"], queues=queues)
        for n, queues in enumerate(others)
    ]
    queues = ("default", "gpu", "slow")
    runs = [new_run(id=f"run_{queue}", definition_id="def_1", queue=queue, due_at=clock.now()) for queue in queues]
    runs.append(new_run(id="run_2", definition_id="def_2", queue=(own or queues)[0], due_at=clock.now()))
    await aresolve(ledger.write([*map(Insert, [*workers, *runs])]))
    async with run_worker(ledger, clock, queues=own) as bench:
        bench.may_end.set()
        await bench.wait_for_attempts(len(claimed) + 1)
        await clock.wait_for_heartbeat()
        assert sorted(attempt.run_id for attempt in bench.attempts) == ["run_2", *(f"run_{queue}" for queue in claimed)]


async def test_a_worker_leaves_versions_that_it_does_not_serve_to_live_workers_that_do(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    other = replace(worker("wrk_other", clock, seconds=15), versions=["def_2", "def_3"])
    runs = [new_run(id=f"run_{n}", definition_id=f"def_{n}", due_at=clock.now()) for n in range(4)]
    await aresolve(ledger.write([*map(Insert, [other, *runs])]))
    async with run_worker(ledger, clock, versions=["def_1", "def_2"]) as bench:
        bench.may_end.set()
        await bench.wait_for_attempts(3)
        [record] = await bench.find(Worker, id=bench.worker.id)
        assert (record.versions, record.queues) == (["def_1", "def_2"], None)
        await clock.wait_for_heartbeat()
        assert sorted(attempt.run_id for attempt in bench.attempts) == ["run_0", "run_1", "run_2"]
        await clock.wait_for_heartbeat()  # the lease of the other worker has expired
        await bench.wait_for_attempts(4)


async def test_a_worker_claims_from_its_queues(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    runs = [new_run(id=f"run_{name}", queue=name, due_at=clock.now()) for name in ("default", "gpu", "slow")]
    await aresolve(ledger.write([*map(Insert, runs)]))
    async with run_worker(ledger, clock, queues=["gpu", "slow"]) as bench:
        await bench.wait_for_attempts(2)
        bench.worker.wake()
        await clock.wait_for_heartbeat()
        assert sorted(attempt.run_id for attempt in bench.attempts) == ["run_gpu", "run_slow"]
        bench.may_end.set()


async def test_a_failed_query_for_work_is_repeated(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
    failing: Any = FailingReadsLedger(ledger)
    async with run_worker(failing, clock, poll_interval=1) as bench:
        assert (bench.attempts, failing.calls > 0) == ([], True)
        failing.has_recovered = True
        clock.advance(timedelta(seconds=1))
        await bench.wait_for_attempts(1)
        bench.may_end.set()


class FailingReadsLedger:
    """A ledger whose reads fail until it has recovered."""

    def __init__(self, ledger: Any) -> None:
        self._ledger, self.has_recovered, self.calls = ledger, False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def claim(self, *args: Any, **served: Any) -> Any:
        self.calls += 1
        if not self.has_recovered:
            raise ConnectionError("injected")
        return self._ledger.claim(*args, **served)


async def test_a_claim_without_an_attempt_is_taken_up_with_the_next_heartbeat(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        unattended = claimed(new_run(status=RunStatus.RUNNING, begun=True), bench.worker.id)
        await aresolve(ledger.write([Insert(unattended)]))
        await clock.wait_for_heartbeat()
        await bench.wait_for_attempts(1)
        assert [(attempt.run_id, attempt.claim) for attempt in bench.attempts] == [(unattended.id, unattended.claim)]
        await clock.wait_for_heartbeat()
        assert len(bench.attempts) == 1
        bench.may_end.set()


async def test_a_claim_whose_attempt_has_ended_is_released_with_the_next_heartbeat(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    """Its write was lost. Parts of the attempt may still exist, and the new claim keeps them from writing."""
    clock, can_write = RecordingClock(), False
    failing: Any = FailingCallsLedger(ledger, lambda name, _: "before" if name == "write" and not can_write else None)
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        bench.ledger = failing  # for the attempt
        await aresolve(ledger.write([Insert(new_run(status=RunStatus.RUNNING, begun=True, due_at=clock.now()))]))
        bench.worker.wake()
        await bench.wait_for_attempts(1)
        bench.may_end.set()
        await wait_until(lambda: bench.worker.active_runs == 0)
        can_write = True
        await clock.wait_for_heartbeat()
        await bench.wait_for_attempts(2)
        first, second = bench.attempts
        assert (first.run_id, first.claim) != (second.run_id, second.claim)
        assert [event.type for event in await aresolve(ledger.events(first.run_id))] == ["WORKFLOW_RESUMED"]


@pytest.mark.parametrize("lost", [1, 3])
async def test_runs_whose_claim_was_saved_without_a_response_begin_at_once(
    ledger: Ledger, new_run: Callable[..., Run], lost: int
) -> None:
    clock, losses = RecordingClock(), iter(range(lost))
    failing: Any = FailingCallsLedger(
        ledger, lambda name, _: "after" if name == "claim" and next(losses, None) is not None else None
    )
    runs = [new_run(due_at=clock.now()) for _ in range(5)]
    await aresolve(ledger.write([Insert(run) for run in runs]))
    async with run_worker(failing, clock, lease=30, poll_interval=60, capacity=4) as bench:
        await bench.wait_for_attempts(4)
        assert clock.delays.count(10) == 1  # there was no heartbeat
        stored = {run.id: run for run in await bench.find(Run)}
        for attempt in bench.attempts:
            assert (stored[attempt.run_id].claim, stored[attempt.run_id].version) == (attempt.claim, 2)
            assert await aresolve(ledger.events(attempt.run_id)) == []
        bench.may_end.set()
        await bench.wait_for_attempts(5)
        assert sorted(attempt.run_id for attempt in bench.attempts) == sorted(run.id for run in runs)


async def test_a_run_that_was_started_without_a_response_begins_at_once(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        reservation = bench.worker.reserve()
        assert reservation is not None
        run = claimed(new_run(), bench.worker.id)
        await aresolve(ledger.write([Insert(run)]))
        bench.worker.note_lost_claim()
        bench.worker.settle(reservation, None)
        await bench.wait_for_attempts(1)
        assert [attempt.claim for attempt in bench.attempts] == [run.claim]
        bench.may_end.set()


async def test_a_lost_claim_is_released_if_there_is_no_capacity_for_its_run(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60, capacity=1) as bench:
        await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
        bench.worker.wake()
        await bench.wait_for_attempts(1)
        lost = claimed(new_run(), bench.worker.id)
        await aresolve(ledger.write([Insert(lost)]))
        bench.worker.note_lost_claim()
        while (await bench.find(Run, id=lost.id))[0].claim is not None:
            await asyncio.sleep(0.005)
        assert len(bench.attempts) == 1
        bench.may_end.set()
        await bench.wait_for_attempts(2)


async def test_a_search_for_lost_claims_leaves_runs_alone_whose_claim_is_in_flight(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    counting: Any = FailingCallsLedger(ledger, lambda name, number: None)
    async with run_worker(counting, clock, lease=30, poll_interval=60) as bench:
        reservation = bench.worker.reserve()
        assert reservation is not None
        run = claimed(new_run(), bench.worker.id)
        await aresolve(ledger.write([Insert(run)]))
        before = counting.calls
        bench.worker.note_lost_claim()
        await wait_until(lambda: counting.calls > before)
        bench.worker.settle(reservation, run)
        await bench.wait_for_attempts(1)
        await clock.wait_for_heartbeat()
        assert [attempt.claim for attempt in bench.attempts] == [run.claim]
        bench.may_end.set()


async def test_a_run_whose_claim_is_in_flight_is_not_released(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        reservation = bench.worker.reserve()
        assert reservation is not None
        run = claimed(new_run(), bench.worker.id)
        await aresolve(ledger.write([Insert(run)]))
        await clock.wait_for_heartbeat()
        await clock.wait_for_heartbeat()
        assert [(run.claim, run.version) for run in await bench.find(Run)] == [(run.claim, run.version)]
        bench.worker.settle(reservation, run)
        await bench.wait_for_attempts(1)
        await clock.wait_for_heartbeat()
        assert [attempt.claim for attempt in bench.attempts] == [run.claim]
        bench.may_end.set()


async def test_an_unattended_claim_is_taken_up_while_others_are_in_flight(
    ledger: Ledger, new_run: Callable[..., Run]
) -> None:
    clock = RecordingClock()
    async with run_worker(ledger, clock, lease=30, poll_interval=60) as bench:
        first = bench.worker.reserve()
        unattended = claimed(new_run(id="run_lost"), bench.worker.id)
        await aresolve(ledger.write([Insert(unattended)]))
        await clock.wait_for_heartbeat()
        second = bench.worker.reserve()
        assert first is not None
        assert second is not None
        bench.worker.settle(first, None)
        await clock.wait_for_heartbeat()
        await bench.wait_for_attempts(1)
        assert [attempt.run_id for attempt in bench.attempts] == ["run_lost"]
        bench.worker.settle(second, None)
        bench.may_end.set()


class FailingCallsLedger:
    """A ledger whose calls fail by number, before or after they take effect."""

    def __init__(self, ledger: Any, failure_of: Callable[[str, int], str | None]) -> None:
        self._ledger, self._failure_of, self.calls = ledger, failure_of, 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        if name not in ("write", "find", "groups", "count", "claim", "get"):
            return method

        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            when = self._failure_of(name, self.calls)
            if when == "before":
                raise StorageUnavailable("injected")
            answer = method(*args, **options)
            if when == "after":
                if hasattr(answer, "result"):
                    answer.result()
                raise StorageUnavailable("injected")
            return answer

        return call


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_failed_registration_is_retried(ledger: Ledger, new_run: Callable[..., Run], when: str) -> None:
    clock = RecordingClock()
    failing: Any = FailingCallsLedger(ledger, lambda name, number: when if number <= 3 else None)
    await aresolve(ledger.write([Insert(new_run(due_at=clock.now()))]))
    bench = WorkerBench(failing, clock, poll_interval=1)
    work = asyncio.create_task(bench.worker.work())
    while not bench.attempts:
        before = len(clock.delays)
        clock.advance(1)
        await wait_until(lambda before=before: bool(bench.attempts) or len(clock.delays) > before)
    assert len(await bench.find(Worker)) == 1
    bench.may_end.set()
    await bench.worker.drain(1)
    await work


async def test_heartbeats_continue_after_failures(ledger: Ledger, new_run: Callable[..., Run]) -> None:
    clock = RecordingClock()
    fails = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if fails else None)
    async with run_worker(failing, clock, lease=30, poll_interval=60) as bench:
        await aresolve(ledger.write([Delete(Worker, where(id=bench.worker.id))]))
        fails = True
        await clock.wait_for_heartbeat()
        await clock.wait_for_heartbeat()
        fails = False
        await clock.wait_for_heartbeat()
        assert [item.id for item in await bench.find(Worker)] == [bench.worker.id]


async def test_a_failed_heartbeat_is_retried_sooner(ledger: Ledger) -> None:
    clock = RecordingClock()
    fails = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if fails and name == "write" else None)
    async with run_worker(failing, clock, lease=30, poll_interval=7) as bench:
        fails, before = True, clock.delays.count(7)
        clock.advance(10)
        # It waits for work, and retries the heartbeat then.
        await wait_until(lambda: clock.delays.count(7) == before + 2)
        fails = False
        clock.advance(7)
        await wait_until(lambda: clock.delays.count(10) == 2)
        [record] = await bench.find(Worker)
        assert record.until == clock.now() + timedelta(seconds=30)


async def test_a_cancelled_worker_sends_no_heartbeats(ledger: Ledger) -> None:
    clock = RecordingClock()
    bench = WorkerBench(ledger, clock, lease=30, poll_interval=60)
    before = asyncio.all_tasks()
    work = asyncio.create_task(bench.worker.work())
    await wait_until(lambda: len(clock.delays) >= 2)
    work.cancel()
    await asyncio.wait([work])
    assert asyncio.all_tasks() == before
    await bench.worker.drain(1)
    assert await bench.find(Worker) == []


async def test_a_worker_stops_although_its_record_cannot_be_deleted(ledger: Ledger) -> None:
    clock = RecordingClock()
    fails = False
    failing: Any = FailingCallsLedger(ledger, lambda name, number: "before" if fails and name == "write" else None)
    async with run_worker(failing, clock, lease=30, poll_interval=60) as bench:
        fails = True
    assert [item.id for item in await bench.find(Worker)] == [bench.worker.id]
