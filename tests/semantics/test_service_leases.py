"""Only one worker executes a run: leases are renewed, or expire, or their expiry is noticed too late.

Neither time nor polling triggers anything here: each test advances the clock, or holds a worker at one of its calls to
the ledger until another worker has reached a certain point.
"""

from __future__ import annotations

import asyncio
import logging
import operator
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Annotated, Any, Self, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, RunStorage, wait_until, wait_until_idle

from statewright import START, StateGraph
from statewright.async_futures import aresolve
from statewright.clock import Alarm
from statewright.errors import StorageUnavailable
from statewright.futures import is_future
from statewright.runs import Advance, Delete, Run, RunStatus, UpdateAll, Worker, where
from statewright.service import Catalog, Service, ServiceSettings, StartRun
from statewright.service.engine.worker import RunWorker
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_interval=36000, lease=30, drain=PATIENCE)
BEAT = 10.0
"""Seconds between the heartbeats of a worker."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
Call = tuple[str, tuple[Any, ...]]
"""A call to a ledger: the name of the method, and its arguments."""


def claims(call: Call) -> bool:
    """Match the call by which a worker claims runs. Before that, it has released the runs of dead workers."""
    return call[0] == "claim"


def lists_runs_of_a_worker(call: Call) -> bool:
    name, arguments = call
    return name == "find" and arguments[0] is Run and any(condition.column == "worker_id" for condition in arguments[1])


def releases_a_run(call: Call) -> bool:
    name, arguments = call
    return name == "write" and any(
        isinstance(change, Advance) and change.values.get("due_at") for change in arguments[0]
    )


def checks_its_lease(call: Call) -> bool:
    return call[0] == "get" and call[1][0] is Worker


class Gate:
    """Holds the first call to a ledger that matches, without blocking the caller's event loop, until it is opened."""

    def __init__(self, matches: Callable[[Call], bool]) -> None:
        self._matches = matches
        self._reached, self._open = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)

    def pass_through(self, call: Call, make_call: Callable[[], Any]) -> Any:
        if self._reached.is_set() or not self._matches(call):
            return make_call()
        self._reached.set()
        return self._pool.submit(self._make_later, make_call)

    def _make_later(self, make_call: Callable[[], Any]) -> Any:
        assert self._open.wait(PATIENCE)
        answer = make_call()
        return answer.result() if is_future(answer) else answer

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE)

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._reached.set()  # later calls are not held
        self._open.set()
        self._pool.shutdown()


class GatedLedger:
    """A ledger whose calls pass gates in their order, and fail if `fails` matches."""

    def __init__(self, ledger: Any, gates: Sequence[Gate], fails: Callable[[Call], bool]) -> None:
        self._ledger, self._gates, self._fails = ledger, gates, fails

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._ledger, name)
        if name not in ("write", "find", "get", "claim"):
            return method

        def call(*arguments: Any, **options: Any) -> Any:
            if self._fails((name, arguments)):
                raise StorageUnavailable("injected")
            make_call: Callable[[], Any] = lambda: method(*arguments, **options)  # noqa: E731
            for gate in self._gates:
                make_call = _through(gate, (name, arguments), make_call)
            return make_call()

        return call


def _through(gate: Gate, call: Call, make_call: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: gate.pass_through(call, make_call)


class BeatingClock(FakeClock):
    """A clock that counts the workers that wait for their next heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self._beats: list[Alarm] = []

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Alarm:
        alarm = super().call_later(seconds, callback)
        if seconds == BEAT:
            self._beats.append(alarm)
        return alarm

    async def advance_to_beat(self, workers: int) -> None:
        """Advance to the next heartbeat, once this many workers wait for it."""

        async def are_waiting() -> bool:
            return sum(alarm.callback is not None for alarm in self._beats) == workers

        await wait_until(are_waiting)
        self.advance(BEAT)


class State(TypedDict, total=False):
    label: str
    log: Annotated[list[str], operator.add]


class Cluster:
    """Several services on one storage and one clock, and the calls of the node of their graph."""

    def __init__(self, run_storage: RunStorage) -> None:
        self.run_storage = run_storage
        self.clock = BeatingClock()
        self.calls: list[tuple[str, str]] = []
        """The name of the service and the label of the run of each call."""
        self.ledger: Any = run_storage.views()["ledger"]
        self._services = AsyncExitStack()
        self._hosts: list[Host] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: Any) -> None:
        for host in self._hosts:
            host.go_on.set()
            for gate in host.gates:
                gate.close()
        await self._services.aclose()

    def host(self, name: str, *gates: Gate, fails: Callable[[Call], bool] = lambda call: False) -> Host:
        host = Host(self, name, gates, fails)
        self._hosts.append(host)
        return host

    async def start(self, name: str, *gates: Gate, **options: Any) -> Host:
        """Start a service, and wait until its worker is registered."""
        host = self.host(name, *gates, **options)
        await self._services.enter_async_context(host.service)
        await wait_until(host.record)
        return host

    async def start_without_claims(self, name: str) -> Host:
        """Start a service that has released the runs of dead workers, and whose first claim is held at a gate."""
        host = await self.start(name, Gate(claims))
        await host.gates[0].reached()
        return host

    async def expire(self) -> None:
        """Expire the leases of all workers, as if their processes had been suspended."""
        await aresolve(self.ledger.write([UpdateAll(Worker, [], {"until": LONG_AGO})]))

    async def delete_record(self, host: Host) -> None:
        """Have another worker find the lease of a worker expired, and delete its record."""
        await self.expire()
        await self.start_without_claims("reaper")
        assert await host.record() is None

    async def run(self, run: Run) -> Run:
        record = await aresolve(self.ledger.get(Run, run.id))
        assert record is not None
        return record


class Host:
    """A service with a graph of one node, which blocks until `go_on` is set."""

    def __init__(self, cluster: Cluster, name: str, gates: Sequence[Gate], fails: Callable[[Call], bool]) -> None:
        self.gates = gates
        self.go_on = threading.Event()
        self._cluster = cluster

        def work(state: State) -> State:
            cluster.calls.append((name, state.get("label", "")))
            assert self.go_on.wait(PATIENCE)
            return {"log": [name]}

        async def await_cancellation(state: State) -> State:
            cluster.calls.append((name, state.get("label", "")))
            await asyncio.Event().wait()
            raise AssertionError

        catalog = Catalog()
        for node in (work, await_cancellation):
            graph = StateGraph(State, name=node.__name__).add_node("work", node).add_edge(START, "work")
            catalog.serve(node.__name__, graph)
        views = cluster.run_storage.views()
        views["ledger"] = GatedLedger(views["ledger"], gates, fails)
        self.service = Service(catalog, settings=SETTINGS, clock=cluster.clock, **views)

    @property
    def worker(self) -> RunWorker:
        assert self.service.worker is not None
        return self.service.worker

    async def start_run(self, label: str, graph: str = "work") -> Run:
        return (await self.service.start(WS, StartRun(graph=graph, input={"label": label}))).run

    async def record(self, worker_id: str | None = None) -> Worker | None:
        return await aresolve(self._cluster.ledger.get(Worker, worker_id or self.worker.id))


async def check_calls(cluster: Cluster, *calls: tuple[str, str]) -> None:
    """Wait for these calls of the node, in any order, and check that there are no others."""

    async def are_enough() -> bool:
        return len(cluster.calls) >= len(calls)

    await wait_until(are_enough)
    assert sorted(cluster.calls) == sorted(calls)


# -- runs of a live worker that is considered dead


async def test_a_worker_that_renews_its_lease_late_keeps_its_runs(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        first = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        await cluster.expire()
        listing = Gate(lists_runs_of_a_worker)
        claiming = Gate(claims)
        await cluster.start("B", listing, claiming)
        await listing.reached()  # B has read that the lease of A has expired
        await cluster.clock.advance_to_beat(1)
        await wait_until(lambda: has_lease(cluster, host_a.worker.id))
        second = await host_a.start_run("second")
        await check_calls(cluster, ("A", "first"), ("A", "second"))
        listing.open()
        await claiming.reached()
        for run in (first, second):
            assert (await cluster.run(run)).worker_id == host_a.worker.id
        claiming.open()
        host_a.go_on.set()
        for run in (first, second):
            done = await wait_until_idle(host_a.service, run)
            assert (done.status, done.output) == (RunStatus.COMPLETED, {"label": run.input["label"], "log": ["A"]})
        await check_calls(cluster, ("A", "first"), ("A", "second"))
        assert await host_a.record() is not None


async def has_lease(cluster: Cluster, worker_id: str) -> bool:
    record = await aresolve(cluster.ledger.get(Worker, worker_id))
    return record is not None and (record.until - cluster.clock.now()).total_seconds() == SETTINGS.lease


async def test_a_worker_that_does_not_renew_its_lease_loses_its_runs(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        run = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        await cluster.expire()
        host_b = await cluster.start("B")
        await check_calls(cluster, ("A", "first"), ("B", "first"))
        assert await host_a.record() is None
        assert (await cluster.run(run)).worker_id == host_b.worker.id
        host_b.go_on.set()
        assert (await wait_until_idle(host_b.service, run)).output == {"label": "first", "log": ["B"]}


# -- runs that a worker claims while it is considered dead


async def test_a_worker_whose_record_is_deleted_registers_before_it_begins_a_run(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        await cluster.delete_record(host_a)
        run = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        await cluster.start_without_claims("C")
        assert (await cluster.run(run)).worker_id == host_a.worker.id
        host_a.go_on.set()
        assert (await wait_until_idle(host_a.service, run)).output == {"label": "first", "log": ["A"]}
        await check_calls(cluster, ("A", "first"))


@pytest.mark.parametrize("is_record_deleted", [True, False])
async def test_a_worker_that_claims_runs_after_its_lease_expired_keeps_them(
    run_storage: RunStorage, is_record_deleted: bool
) -> None:
    async with Cluster(run_storage) as cluster:
        claiming = Gate(claims)
        host_a = await cluster.start("A", claiming)
        run = await cluster.host("a service without a worker").start_run("first")
        await claiming.reached()
        if is_record_deleted:
            await cluster.delete_record(host_a)
        else:
            await cluster.expire()
        claiming.open()
        await check_calls(cluster, ("A", "first"))
        await cluster.start_without_claims("C")
        assert (await cluster.run(run)).worker_id == host_a.worker.id
        host_a.go_on.set()
        assert (await wait_until_idle(host_a.service, run)).output == {"label": "first", "log": ["A"]}
        await check_calls(cluster, ("A", "first"))


async def test_a_run_released_before_its_worker_checks_its_lease_does_not_begin(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        checking = Gate(checks_its_lease)
        host_a = await cluster.start("A", checking)
        await cluster.delete_record(host_a)
        run = await host_a.start_run("first")
        await checking.reached()
        host_c = await cluster.start("C")
        await check_calls(cluster, ("C", "first"))
        checking.open()
        await wait_until(host_a.record)
        await host_a.service.stop()  # waits for its attempts to end
        assert (await cluster.run(run)).worker_id == host_c.worker.id
        host_c.go_on.set()
        assert (await wait_until_idle(host_c.service, run)).output == {"label": "first", "log": ["C"]}
        await check_calls(cluster, ("C", "first"))


async def test_a_worker_that_registers_again_keeps_runs_that_are_about_to_be_released(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        checking, releasing, claiming = Gate(checks_its_lease), Gate(releases_a_run), Gate(claims)
        host_a = await cluster.start("A", checking)
        await cluster.delete_record(host_a)
        run = await host_a.start_run("first")
        await checking.reached()
        await cluster.start("C", releasing, claiming)
        await releasing.reached()
        checking.open()
        await check_calls(cluster, ("A", "first"))
        releasing.open()
        await claiming.reached()
        assert (await cluster.run(run)).worker_id == host_a.worker.id
        host_a.go_on.set()
        assert (await wait_until_idle(host_a.service, run)).output == {"label": "first", "log": ["A"]}
        await check_calls(cluster, ("A", "first"))


async def test_a_run_whose_worker_cannot_check_its_lease_begins_after_the_next_beat(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        failing = threading.Event()
        host_a = await cluster.start("A", fails=lambda call: failing.is_set() and checks_its_lease(call))
        await wait_until(lambda: has_free_capacity(host_a.worker))
        failing.set()
        run = await host_a.start_run("first")
        await wait_until(lambda: has_nothing_to_do(host_a))
        assert (cluster.calls, (await cluster.run(run)).worker_id) == ([], host_a.worker.id)
        failing.clear()
        await cluster.clock.advance_to_beat(1)
        await check_calls(cluster, ("A", "first"))
        host_a.go_on.set()
        assert (await wait_until_idle(host_a.service, run)).output == {"label": "first", "log": ["A"]}


async def has_free_capacity(worker: RunWorker) -> bool:
    return worker.has_free_capacity


async def has_nothing_to_do(host: Host) -> bool:
    return not (host.worker.active_runs or host.worker._reserved_runs)


# -- draining workers


async def begin_draining(host: Host) -> tuple[str, asyncio.Task[None]]:
    """Begin to stop a service with a running step. Return the id of its worker, and the task that stops the service."""
    worker = host.worker
    stopping = asyncio.create_task(host.service.stop())

    async def has_no_free_capacity() -> bool:
        return not worker.has_free_capacity

    await wait_until(has_no_free_capacity)
    return worker.id, stopping


async def test_a_worker_that_drains_longer_than_its_lease_keeps_its_runs(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        run = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        host_b = await cluster.start("B")
        await wait_until(lambda: has_free_capacity(host_b.worker))
        worker_id, stopping = await begin_draining(host_a)
        for _ in range(7):
            await cluster.clock.advance_to_beat(2)
            await wait_until(lambda: has_lease(cluster, worker_id))
            await wait_until(lambda: has_lease(cluster, host_b.worker.id))
        assert (await cluster.run(run)).worker_id == worker_id
        host_a.go_on.set()
        await stopping
        assert await host_a.record(worker_id) is None
        assert (await wait_until_idle(host_b.service, run)).output == {"label": "first", "log": ["A"]}
        await check_calls(cluster, ("A", "first"))


async def test_a_draining_worker_claims_no_runs(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        worker_id, stopping = await begin_draining(host_a)
        run = await host_a.start_run("second")
        for _ in range(3):
            await cluster.clock.advance_to_beat(1)
            await wait_until(lambda: has_lease(cluster, worker_id))
        host_a.go_on.set()
        await stopping
        await check_calls(cluster, ("A", "first"))
        assert (await cluster.run(run)).claim is None


async def test_a_run_cancelled_by_another_service_ends_on_a_draining_worker(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        run = await host_a.start_run("first", "await_cancellation")
        await check_calls(cluster, ("A", "first"))
        worker_id, stopping = await begin_draining(host_a)
        await cluster.host("a service without a worker").service.cancel(WS, run.id)
        await cluster.clock.advance_to_beat(1)
        await stopping
        assert await host_a.record(worker_id) is None
        assert (await cluster.run(run)).status is RunStatus.CANCELLED


async def test_a_draining_worker_whose_record_is_deleted_registers_again(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        host_a = await cluster.start("A")
        run = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        worker_id, stopping = await begin_draining(host_a)
        await aresolve(cluster.ledger.write([Delete(Worker, where(id=worker_id))]))
        await cluster.clock.advance_to_beat(1)
        await wait_until(lambda: has_lease(cluster, worker_id))
        host_a.go_on.set()
        await stopping
        assert await host_a.record(worker_id) is None
        assert (await cluster.run(run)).status is RunStatus.COMPLETED


async def test_a_service_stops_even_if_its_worker_record_cannot_be_written(run_storage: RunStorage) -> None:
    async with Cluster(run_storage) as cluster:
        failing, failed = threading.Event(), threading.Event()

        def fails(call: Call) -> bool:
            name, arguments = call
            is_of_worker = name == "write" and getattr(arguments[0][0], "kind", None) is Worker
            if failing.is_set() and is_of_worker:
                failed.set()
            return failing.is_set() and is_of_worker

        before = set(threading.enumerate())
        host_a = await cluster.start("A", fails=fails)
        run = await host_a.start_run("first")
        await check_calls(cluster, ("A", "first"))
        worker_id, stopping = await begin_draining(host_a)
        failing.set()
        await cluster.clock.advance_to_beat(1)
        assert await asyncio.to_thread(failed.wait, PATIENCE)
        host_a.go_on.set()
        await stopping
        assert await host_a.record(worker_id) is not None
        assert (await cluster.run(run)).status is RunStatus.COMPLETED
        left = [thread for thread in set(threading.enumerate()) - before if thread.name == "statewright-service"]
        assert left == []


# -- steps that ignore their cancellation


async def test_a_service_stops_even_if_a_step_ignores_its_cancellation(
    run_storage: RunStorage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("statewright.service.engine.worker.CANCEL_TIMEOUT", 0.05)
    monkeypatch.setattr("statewright.service.background.loop_thread.CANCEL_TIMEOUT", 0.05)
    ends: Future[asyncio.Event] = Future()

    async def stubborn(state: State) -> State:
        end = asyncio.Event()
        ends.set_result(end)
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return {"log": ["stubborn"]}

    catalog = Catalog()
    catalog.serve("g", StateGraph(State, name="g").add_node(stubborn).add_edge(START, "stubborn"))
    before = set(threading.enumerate())
    service = Service(catalog, settings=SETTINGS, **run_storage.views())
    await service.start_working()
    await service.start(WS, StartRun(graph="g", input={}))
    end = await asyncio.to_thread(ends.result, PATIENCE)
    with caplog.at_level(logging.WARNING, "statewright.service"):
        await service.stop(0)
    assert "Thread statewright-service did not end" in caplog.text
    [left] = [thread for thread in set(threading.enumerate()) - before if thread.name == "statewright-service"]
    loop: Any = end._loop  # type: ignore[attr-defined]
    loop.call_soon_threadsafe(end.set)
    await asyncio.to_thread(left.join, PATIENCE)
    assert not left.is_alive()
