"""The supervisor keeps a fleet of real workers, in this process, at the planned size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import pytest
from tests.unit.cli.workers.fleet.in_process import InProcessFleet

from statewright import END, START, StateGraph
from statewright.async_futures import aresolve
from statewright.cli.console.failure import UsageError
from statewright.cli.workers.fleet.scaling import ScalingPolicy
from statewright.cli.workers.fleet.supervisor import PENDING_WARNING_SECONDS, Supervisor
from statewright.errors import StorageUnavailable
from statewright.runs import Run, RunStatus, Worker
from statewright.service import Catalog, Service, ServiceSettings, StartRun
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
CAPACITY = 2
LEASE = 3000.0
"""Seconds of the clock of the test, which must not pass between two heartbeats, however slow the machine is."""
HEARTBEAT = LEASE / 3


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class State(TypedDict, total=False):
    done: bool


class Unreadable:
    """A ledger that can be made unavailable."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self.is_away = False

    def __getattr__(self, name: str) -> Any:
        if self.is_away:
            raise StorageUnavailable("The database is away.")
        return getattr(self._ledger, name)


class Bench:
    """A supervisor, its fleet, and a service that starts runs. Each run waits until `gate` is set."""

    def __init__(self, folder: Path, policy: ScalingPolicy, **options: Any) -> None:
        self.clock = FakeClock()
        self.gate = asyncio.Event()
        database = SqliteDatabase(folder / "runs.db")
        self.database = database
        self._storage: dict[str, Any] = {"ledger": SqliteLedger(database), "saver": SqliteSaver(database)}
        self.starter = self._new_service(works=False)
        self.fleet = InProcessFleet(self._new_service, options.pop("room", 1000))
        self.ledger = Unreadable(self._storage["ledger"])
        arguments = {"drain": 20.0, "heartbeat": HEARTBEAT, **options}
        self.supervisor = Supervisor(self.fleet, self.ledger, policy, self.clock, **arguments)  # type: ignore[arg-type]

    def _new_service(self, works: bool = True) -> Service:
        async def wait(state: State) -> State:
            while not self.gate.is_set():
                await asyncio.sleep(0.01)
            return {"done": True}

        catalog = Catalog()
        graph = StateGraph(State, name="work").add_node("wait", wait).add_edge(START, "wait").add_edge("wait", END)
        catalog.serve("work", graph)
        settings = ServiceSettings(capacity=CAPACITY, lease=LEASE, drain=10_000, works=works)
        return Service(catalog, clock=self.clock, settings=settings, **self._storage)

    async def start_runs(self, count: int) -> None:
        for _ in range(count):
            await self.starter.start("default", StartRun(graph="work", input={}))

    async def step(self, seconds: float = 1.0) -> None:
        """Let time pass, and the supervisor take a step."""
        self.clock.advance(seconds)
        await self.supervisor.step()

    async def steps_until(
        self, condition: Callable[[], bool], seconds: float = 1.0, claimed: int | None = None
    ) -> None:
        """Take steps until a condition is true, and a number of runs is claimed."""
        for _ in range(2000):
            if condition() and (claimed is None or await self.count_claimed() == claimed):
                return
            await self.step(seconds)
            await asyncio.sleep(0.005)
        raise AssertionError(f"The condition did not become true: {self.states}")

    async def count_claimed(self) -> int:
        return sum(run.claim is not None for run in await self.runs())

    @property
    def states(self) -> dict[str, int]:
        """The numbers of workers by state, without zeros."""
        return {state: count for state, count in self.supervisor.count_by_state().items() if count}

    async def runs(self) -> list[Run]:
        return list(await aresolve(self._storage["ledger"].find(Run)))

    async def workers(self) -> list[Worker]:
        return list(await aresolve(self._storage["ledger"].find(Worker)))


@asynccontextmanager
async def bench_in(folder: Path, **options: Any) -> AsyncIterator[Bench]:
    policy = ScalingPolicy(**{"min": 1, "max": 3, "capacity": CAPACITY, **options.pop("policy", {})})
    bench = Bench(folder, policy, **options)
    try:
        yield bench
    finally:
        await asyncio.to_thread(bench.fleet.close)
        bench.database.close()


async def test_the_fleet_grows_with_a_backlog_and_drains_back_to_its_minimum(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"idle": 5}) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1})
        await bench.start_runs(6)
        await bench.steps_until(lambda: bench.states == {"working": 3}, claimed=6)
        assert {worker.capacity for worker in await bench.workers()} == {CAPACITY}

        bench.gate.set()
        await bench.steps_until(lambda: bench.supervisor.desired == 1, claimed=0)
        assert {run.status for run in await bench.runs()} == {RunStatus.COMPLETED}
        assert bench.states == {"working": 1, "draining": 2}
        assert sum(worker.draining for worker in await bench.workers()) == 2
        bench.clock.advance(HEARTBEAT)
        await bench.steps_until(lambda: bench.states == {"working": 1}, 0)
        assert bench.fleet.killed == []
        assert len(await bench.workers()) == 1


async def test_the_workers_with_the_fewest_runs_are_drained(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"min": 2, "max": 2}) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 2})
        await bench.start_runs(1)
        await bench.steps_until(lambda: True, claimed=1)
        (busy,) = {run.worker_id for run in await bench.runs()}
        bench.supervisor._policy = ScalingPolicy(min=1, max=1, capacity=CAPACITY)
        await bench.step()
        await bench.step()
        assert [worker.id for worker in await bench.workers() if not worker.draining] == [busy]


async def test_a_lost_worker_is_replaced_after_a_delay_and_its_runs_complete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench_in(tmp_path) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1})
        await bench.start_runs(1)
        await bench.steps_until(lambda: True, claimed=1)
        bench.fleet.lose("actor_1")
        await bench.step()
        assert (bench.states, bench.supervisor.losses) == ({}, 1)
        (record,) = [record for record in caplog.records if "was lost" in record.message]
        assert (record.__dict__["reason"], record.__dict__["replaced_in_seconds"]) == ("killed", 1)
        await bench.step(0.5)
        assert bench.states == {}
        await bench.step(0.5)
        assert bench.states == {"pending": 1}
        bench.gate.set()
        await bench.steps_until(lambda: bench.states == {"working": 1})
        for _ in range(2000):
            if {run.status for run in await bench.runs()} == {RunStatus.COMPLETED}:
                return
            await bench.step()
            await asyncio.sleep(0.005)
        raise AssertionError("The run did not complete.")


async def test_workers_that_find_no_room_are_not_multiplied_and_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench_in(tmp_path, policy={"max": 8}, room=1) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1})
        await bench.start_runs(20)
        await bench.steps_until(lambda: bench.supervisor.desired == 2)
        for _ in range(int(PENDING_WARNING_SECONDS) + 2):
            await bench.step()
        assert bench.states == {"working": 1, "pending": 1}
        (warning,) = [record for record in caplog.records if "wait for resources" in record.message]
        assert (warning.__dict__["pending"], warning.__dict__["resources"]) == (1, "there is room for 1")

        bench.fleet.room = 8
        await bench.steps_until(lambda: bench.states == {"working": 8})


async def test_workers_that_have_not_begun_are_killed_instead_of_drained(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"min": 3}, room=1) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1, "pending": 2})
        bench.supervisor._policy = ScalingPolicy(min=1, max=1, capacity=CAPACITY)
        await bench.step()
        assert (bench.states, bench.fleet.killed) == ({"working": 1}, ["actor_3", "actor_2"])


async def test_a_worker_that_does_not_drain_in_time_is_killed(tmp_path: Path) -> None:
    """Its step has 10 000 seconds, but the supervisor waits for 20 seconds after the next heartbeat, and some more."""
    async with bench_in(tmp_path, policy={"min": 1, "max": 1}) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1})
        await bench.start_runs(1)
        await bench.steps_until(lambda: True, claimed=1)
        bench.supervisor._policy = ScalingPolicy(min=0, max=0, capacity=CAPACITY)
        await bench.step()
        assert bench.states == {"draining": 1}
        await bench.step(HEARTBEAT)
        await bench.step(34)
        assert bench.fleet.killed == []
        await bench.step(2)
        assert (bench.fleet.killed, bench.states) == (["actor_1"], {})


async def test_the_fleet_keeps_its_size_while_the_database_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bench_in(tmp_path, policy={"min": 2}) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 2})
        bench.ledger.is_away = True
        for _ in range(5):
            await bench.step()
        assert (bench.states, bench.supervisor.desired) == ({"working": 2}, 2)
        bench.fleet.lose("actor_2")
        await bench.steps_until(lambda: bench.states == {"working": 2} and bench.supervisor.losses == 1)
        bench.ledger.is_away = False
        await bench.step()
    messages = [record.message for record in caplog.records if record.name == "statewright.fleet"]
    assert [message for message in messages if "be read" in message] == [
        "The queues cannot be read. The fleet keeps its size until they can.",
        "The queues can be read again.",
    ]


async def test_a_fleet_whose_first_worker_refuses_to_start_ends_with_its_error(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        bench.fleet.refusal = "There is no module 'torch'."
        with pytest.raises(UsageError, match="A worker of the fleet cannot start: There is no module 'torch'"):
            await bench.steps_until(lambda: False)


async def test_later_refusals_are_losses(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"min": 2}, room=1) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 1, "pending": 1})
        bench.fleet.refusal, bench.fleet.room = "no", 2
        await bench.steps_until(lambda: bench.supervisor.losses == 3)
        bench.fleet.refusal = None
        await bench.steps_until(lambda: bench.states == {"working": 2})


async def test_all_workers_drain_at_the_end(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"min": 3}, room=2) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 2, "pending": 1})
        ending = asyncio.create_task(bench.supervisor.drain())
        while sum(worker.draining for worker in await bench.workers()) < 2:
            await asyncio.sleep(0.005)
        bench.clock.advance(HEARTBEAT)
        await ending
        assert (await bench.workers(), bench.states, bench.fleet.killed) == ([], {}, ["actor_3"])


async def test_a_fleet_can_be_killed_while_it_drains(tmp_path: Path) -> None:
    async with bench_in(tmp_path, policy={"min": 2}) as bench:
        await bench.steps_until(lambda: bench.states == {"working": 2})
        ending = asyncio.create_task(bench.supervisor.drain())
        await asyncio.sleep(0)
        bench.supervisor.kill_all()
        await ending
        assert sorted(bench.fleet.killed) == ["actor_1", "actor_2"]


async def test_the_supervisor_takes_steps_until_it_must_end(tmp_path: Path) -> None:
    async with bench_in(tmp_path) as bench:
        must_end = asyncio.Event()
        task = asyncio.create_task(bench.supervisor.supervise(must_end))
        while not bench.states:
            await asyncio.sleep(0.005)
        must_end.set()
        await task
        assert bench.states == {"pending": 1}


@pytest.fixture(autouse=True)
def _log_of_the_fleet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "statewright.fleet")
