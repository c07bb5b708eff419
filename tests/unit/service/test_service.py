"""The service as a whole: started, used and stopped."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

import pytest

from statewright import END, START, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.errors import NotFound, StatewrightError, StorageUnavailable
from statewright.runs import (
    Delete,
    InMemoryLedger,
    Insert,
    Ledger,
    Queue,
    Run,
    RunStatus,
    Update,
    Worker,
    Workspace,
    where,
)
from statewright.service import Catalog, RunFilter, Service, ServiceSettings, StartRun
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
WS = "default"
TIMEOUT = 600.0
"""Seconds after which a test fails."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class State(TypedDict, total=False):
    first: Any
    answer: Any


def build_graph(name: str, *nodes: Callable[[Any], Any]) -> StateGraph:
    graph, before = StateGraph(State, name=name), START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def first(state: State) -> State:
    return {"first": 1}


def ask_question(state: State) -> State:
    return {"answer": interrupt("go on?")}


def fail(state: State) -> State:
    raise ValueError("no luck")


def create_service(storage: tuple[Ledger, Checkpointer], *graphs: StateGraph, **options: Any) -> Service:
    catalog = Catalog()
    on_failure = options.pop("on_failure", None)
    for item in graphs:
        catalog.serve(item.name or "", item, on_failure=on_failure)
    settings = ServiceSettings(poll_interval=0.05, drain=2.0, capacity=options.pop("capacity", 100))
    return Service(catalog, ledger=storage[0], saver=storage[1], settings=settings, **options)


@asynccontextmanager
async def run_service(
    storage: tuple[Ledger, Checkpointer], *graphs: StateGraph, **options: Any
) -> AsyncIterator[Service]:
    async with create_service(storage, *graphs, **options) as service:
        yield service


Storage = tuple[Ledger, Checkpointer]


async def test_a_service_needs_both_a_ledger_and_a_saver_or_neither() -> None:
    with pytest.raises(ValueError, match="Give both, or neither"):
        Service(Catalog(), ledger=InMemoryLedger())
    await Service(Catalog()).check()


async def test_a_run_is_started_followed_and_read(storage: Storage) -> None:
    async with run_service(storage, build_graph("g", first, ask_question)) as service:
        started = await service.start_and_wait(WS, StartRun(graph="g"), TIMEOUT)
        run = started.run
        assert (started.created, run.status) == (True, RunStatus.WAITING)
        assert await service.state(WS, run.id) == {"first": 1}
        assert [(step.name, step.status) for step in await service.steps(WS, run.id)] == [
            ("first", "completed"),
            ("ask_question", "waiting"),
        ]
        following = asyncio.create_task(read_numbers(service, run.id))
        [wait] = (await service.waits(WS, run_id=run.id)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        ended = await service.wait(WS, run.id, TIMEOUT)
        assert (ended.status, await service.state(WS, run.id)) == (RunStatus.COMPLETED, {"first": 1, "answer": "yes"})
        assert await asyncio.wait_for(following, TIMEOUT) == list(range(1, ended.last_event + 1))
        assert [event.seq for event in await service.events(WS, run.id, after=2, limit=2)] == [3, 4]


async def read_numbers(service: Service, run_id: str) -> list[int]:
    return [event.seq async for event in service.follow(WS, run_id)]


async def test_a_run_that_has_not_begun_has_no_state(storage: Storage) -> None:
    service = create_service(storage, build_graph("g", first))
    await aresolve(storage[0].write([Insert(item) for item in service.context.catalog.to_records(service.clock.now())]))
    run = (await service.start(WS, StartRun(graph="g"))).run
    assert (run.status, run.claim, service.worker) == (RunStatus.PENDING, None, None)
    assert (await service.state(WS, run.id), await service.steps(WS, run.id)) == ({}, [])
    await service.start_working()
    try:
        assert (await service.wait(WS, run.id, TIMEOUT)).output == {"first": 1}
    finally:
        await service.stop()


async def test_the_same_idempotency_key_returns_the_same_run(storage: Storage) -> None:
    async with run_service(storage, build_graph("g", first)) as service:
        request = StartRun(graph="g", idempotency_key="k")
        started = await service.start_and_wait(WS, request, TIMEOUT)
        again = await service.start_and_wait(WS, request, TIMEOUT)
        concurrent = await asyncio.gather(
            *(service.start(WS, StartRun(graph="g", idempotency_key="l")) for _ in range(5))
        )
        assert (started.created, again.created, again.run.id) == (True, False, started.run.id)
        assert sorted(item.created for item in concurrent) == [False] * 4 + [True]
        assert len({item.run.id for item in concurrent}) == 1
        assert (await service.start(WS, StartRun(graph="g"))).run.id != started.run.id


async def test_a_run_that_can_begin_at_once_is_claimed_by_the_process_that_starts_it(storage: Storage) -> None:
    async with run_service(storage, build_graph("g", first)) as service:
        worker = service.worker
        assert worker is not None
        while not worker.has_free_capacity:
            await asyncio.sleep(0.001)
        run = (await service.start(WS, StartRun(graph="g"))).run
        assert (run.worker_id, run.claim is not None, run.due_at) == (worker.id, True, None)
        later = service.clock.now() + timedelta(hours=1)
        for request in (
            StartRun(graph="g", after=later),
            StartRun(graph="g", thread_id="t"),
            StartRun(graph="g", concurrency_key="k", concurrency_limit=1),
        ):
            assert (await service.start(WS, request)).run.claim is None
        await aresolve(storage[0].write([Insert(Workspace(id="small", slug="small", max_running=1, created_at=later))]))
        assert (await service.start("small", StartRun(graph="g"))).run.claim is None


@pytest.mark.parametrize(
    "limits",
    [
        Queue(id="default", max_running=1),
        Queue(id="default", starts_per_minute=1, tokens=0),
        Workspace(id=WS, slug=WS, max_running=1, created_at=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
    ids=["runs of a queue", "starts of a queue", "runs of a workspace"],
)
async def test_a_limit_holds_for_all_runs_that_are_started_after_it_was_set(storage: Storage, limits: Any) -> None:
    async with run_service(storage, build_graph("g", first)) as service:
        worker = service.worker
        assert worker is not None
        while not worker.has_free_capacity:
            await asyncio.sleep(0.001)
        assert (await service.start(WS, StartRun(graph="g"))).run.claim is not None
        await aresolve(storage[0].write([Delete(type(limits), where(id=limits.id)), Insert(limits)]))
        for _ in range(2):
            started = await service.start(WS, StartRun(graph="g"))
            assert (started.created, started.run.claim) == (True, None)
        await aresolve(storage[0].write([Delete(type(limits), where(id=limits.id))]))


async def test_a_failure_handler_is_started_once_with_the_failure(storage: Storage) -> None:
    async with run_service(storage, build_graph("g", fail), on_failure="g") as service:
        run = (await service.start_and_wait(WS, StartRun(graph="g", input={"answer": 1}), TIMEOUT)).run
        assert run.status is RunStatus.FAILED
        [other] = [item for item in (await service.runs(WS, RunFilter(graph="g"))).items if item.id != run.id]
        assert (other.source, other.metadata) == (f"failure:{run.id}", {"failedRun": run.id})
        assert other.input == {"runId": run.id, "graph": "g", "input": {"answer": 1}, "error": run.error}
        await service.wait(WS, other.id, TIMEOUT)
        assert (await service.runs(WS, RunFilter())).total == 2  # the failure of the handler starts nothing


async def test_a_missing_failure_handler_does_not_prevent_the_run_from_ending(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="statewright.service"):
        async with run_service(storage, build_graph("g", fail)) as service:
            request = StartRun(graph="g", settings={"onFailure": "nothing"})
            run = (await service.start_and_wait(WS, request, TIMEOUT)).run
            assert (run.status, (await service.runs(WS, RunFilter())).total) == (RunStatus.FAILED, 1)
    assert "The on_failure graph of run" in caplog.text


async def test_a_run_is_not_visible_to_other_workspaces(storage: Storage) -> None:
    async with run_service(storage, build_graph("g", first)) as service:
        run = (await service.start_and_wait(WS, StartRun(graph="g"), TIMEOUT)).run
        reads: list[Callable[[str, str], Any]] = [
            service.run, service.state, service.steps, service.events, service.logs, service.model_calls, service.cost,
            service.cancel, service.pause, service.resume, service.retry,
        ]  # fmt: skip
        for read in reads:
            with pytest.raises(NotFound):
                await read("other", run.id)
        with pytest.raises(NotFound):
            await anext(service.follow("other", run.id))
        assert (await service.runs("other", RunFilter())).total == 0
        assert await service.cancel_all("other", RunFilter()) == []


async def test_a_stopping_service_claims_no_runs_and_releases_its_own(storage: Storage) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold(state: State) -> State:
        begun.set()
        go.wait(TIMEOUT)
        return {"answer": "held"}

    graphs = (build_graph("g", hold, first),)
    service = create_service(storage, *graphs)
    await service.start_working()
    run = (await service.start(WS, StartRun(graph="g"))).run
    assert await asyncio.to_thread(begun.wait, TIMEOUT)
    worker = service.worker
    assert worker is not None
    stopping = asyncio.create_task(service.stop())
    while not all(attempt._control.drain_reason for attempt in worker._attempts.values()):
        await asyncio.sleep(0.001)
    accepted = (await service.start(WS, StartRun(graph="g"))).run
    go.set()
    await asyncio.wait_for(stopping, TIMEOUT)
    await service.stop()
    released = await service.run(WS, run.id)
    assert (released.status, released.claim, await aresolve(storage[0].count(Worker))) == (RunStatus.RUNNING, None, 0)
    assert next(step.status for step in await service.steps(WS, run.id)) == "completed"
    async with run_service(storage, *graphs) as other:
        for item in (run, accepted):
            assert (await other.wait(WS, item.id, TIMEOUT)).output == {"first": 1, "answer": "held"}


@pytest.mark.parametrize("is_stopping", [True, False])
async def test_a_service_in_a_hurry_cancels_steps_and_releases_their_runs(storage: Storage, is_stopping: bool) -> None:
    begun, holds = asyncio.Event(), [True]
    loop = asyncio.get_running_loop()

    async def hold(state: State) -> State:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.sleep(TIMEOUT * holds[0])
        return {"answer": "held"}

    service = create_service(storage, build_graph("g", hold, first))
    await service.start_working()
    run = (await service.start(WS, StartRun(graph="g"))).run
    await asyncio.wait_for(begun.wait(), TIMEOUT)
    worker = service.worker
    assert worker is not None
    stopping = asyncio.create_task(service.stop(2 * TIMEOUT))
    while is_stopping and not all(attempt._control.drain_reason for attempt in worker._attempts.values()):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    service.hurry()
    await asyncio.wait_for(stopping, TIMEOUT)
    released = await service.run(WS, run.id)
    assert (released.status, released.claim, await aresolve(storage[0].count(Worker))) == (RunStatus.RUNNING, None, 0)
    holds[0] = False
    async with service:  # it takes its time again
        assert (await service.wait(WS, run.id, TIMEOUT)).output == {"first": 1, "answer": "held"}


async def test_a_service_that_does_not_work_leaves_its_runs_to_others(storage: Storage) -> None:
    graph = build_graph("g", first)
    catalog = Catalog()
    catalog.serve("g", graph)
    settings = ServiceSettings(works=False, poll_interval=0.05)
    async with Service(catalog, ledger=storage[0], saver=storage[1], settings=settings) as front:
        run = (await front.start(WS, StartRun(graph="g"))).run
        assert (front.is_running, front.worker, await aresolve(storage[0].count(Worker))) == (True, None, 0)
        assert (await front.run(WS, run.id)).status is RunStatus.PENDING
        async with run_service(storage, graph):
            assert (await front.wait(WS, run.id, TIMEOUT)).output == {"first": 1}
    assert front.is_running is False


async def test_a_service_can_be_started_again(storage: Storage) -> None:
    service = create_service(storage, build_graph("g", first))
    for _ in range(2):
        async with service:
            result = await service.start_and_wait(WS, StartRun(graph="g"), TIMEOUT)
            assert result.run.status is RunStatus.COMPLETED


async def test_secrets_are_not_reported(storage: Storage) -> None:
    def leak(state: State) -> State:
        raise ValueError("the key is 1234")

    def redact(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: redact(item) for name, item in value.items()}
        return value.replace("1234", "***") if isinstance(value, str) else value

    async with run_service(storage, build_graph("g", leak), redact=redact) as service:
        run = (await service.start_and_wait(WS, StartRun(graph="g"), TIMEOUT)).run
        assert run.error["message"] == "ValueError: the key is ***"
        assert "1234" not in repr([await service.events(WS, run.id), await service.steps(WS, run.id)])


async def test_the_time_in_the_queue_is_measured(storage: Storage) -> None:
    clock, queue_times = FakeClock(), list[float]()

    class RecordingMeter:
        def record_run_start(self, run_id: str, workspace_id: str) -> None:
            assert workspace_id == WS

        def record_queue_time(self, seconds: float) -> None:
            queue_times.append(seconds)

        def record_delivery(self, outcome: str) -> None:
            raise AssertionError("There are no webhooks.")

    async with run_service(storage, build_graph("g", first), clock=clock, meter=RecordingMeter()) as service:
        await service.start_and_wait(WS, StartRun(graph="g"), TIMEOUT)
        after = clock.now() + timedelta(hours=1)
        run = (await service.start(WS, StartRun(graph="g", after=after))).run
        clock.advance(timedelta(hours=1, seconds=2))
        service.wake_background_tasks()
        assert (await service.wait(WS, run.id, TIMEOUT)).status is RunStatus.COMPLETED
    assert queue_times == [0, 2]


async def test_check_reports_an_unreadable_ledger(tmp_path: Any) -> None:
    database = SqliteDatabase(tmp_path / "runs.db")
    service = Service(Catalog(), ledger=SqliteLedger(database), saver=SqliteSaver(database))
    await service.check()
    database.close()
    with pytest.raises(StatewrightError):
        await service.check()


class MeetingNode:
    """A node in which a number of runs must meet, and which records the largest number of concurrent runs."""

    def __init__(self, size: int) -> None:
        self.active, self.max_active = 0, 0
        self._lock = threading.Lock()
        self._full = threading.Barrier(size)

    def meet(self, state: State) -> State:
        with self._lock:
            self.active += 1
            self.max_active = max(self.max_active, self.active)
        self._full.wait(TIMEOUT)
        threading.Event().wait(0.02)  # gives an excess run the time to arrive
        with self._lock:
            self.active -= 1
        return {"answer": 1}


async def test_queued_runs_do_not_exceed_the_capacity(storage: Storage) -> None:
    meeting = MeetingNode(3)
    service = create_service(storage, build_graph("g", meeting.meet), capacity=3)
    await aresolve(storage[0].write([Insert(item) for item in service.context.catalog.to_records(service.clock.now())]))
    runs = [(await service.start(WS, StartRun(graph="g"))).run for _ in range(12)]
    async with service:
        for run in runs:
            assert (await service.wait(WS, run.id, TIMEOUT)).status is RunStatus.COMPLETED
    assert meeting.max_active == 3


async def test_started_runs_do_not_exceed_the_capacity() -> None:
    go = threading.Event()

    def hold(state: State) -> State:
        go.wait(TIMEOUT)
        return {"answer": 1}

    service = create_service((InMemoryLedger(), InMemorySaver()), build_graph("g", hold), capacity=1)
    busy: Any = BusyLedger(service)
    async with service:
        while not busy.worker.has_free_capacity:
            await asyncio.sleep(0.001)
        later = service.clock.now() + timedelta(hours=1)
        busy.due = [(await service.start(WS, StartRun(graph="g", after=later))).run]
        run = (await service.start(WS, StartRun(graph="g"))).run
        until = time.monotonic() + 0.3
        while busy.worker.active_runs < 2 and time.monotonic() < until:
            await asyncio.sleep(0.001)
        concurrent = busy.worker.active_runs
        go.set()
        for item in (run, *busy.done):
            assert (await service.wait(WS, item.id, TIMEOUT)).status is RunStatus.COMPLETED
    assert (len(busy.done), concurrent) == (1, 1)


class BusyLedger:
    """A ledger in which another run becomes due just before a claimed run is written."""

    def __init__(self, service: Service) -> None:
        self._service, self._ledger = service, service.context.ledger
        service.context.ledger = self  # type: ignore[assignment]
        self.due: list[Run] = []
        self.done: list[Run] = []

    @property
    def worker(self) -> Any:
        return self._service.worker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        records = [change.record for change in changes if isinstance(change, Insert)]
        if any(isinstance(record, Run) and record.claim is not None for record in records) and self.due:
            self.done.append(self.due.pop())
            self._ledger.write([Update(Run, self.done[0].id, {"due_at": self._service.clock.now()})])
            self.worker.wake()
            until = time.monotonic() + 0.3
            while not self.worker.active_runs and time.monotonic() < until:
                time.sleep(0.001)
        return self._ledger.write(changes)


class LosingLedger:
    """A ledger that loses the response to the first write that claims a new run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self.losses = ledger, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        result = self._ledger.write(changes)
        claims = any(isinstance(change, Insert) and getattr(change.record, "claim", None) for change in changes)
        if not claims or self.losses:
            return result
        self.losses += 1
        if hasattr(result, "result"):
            result.result()
        raise StorageUnavailable("injected")


async def test_a_run_whose_start_was_saved_without_a_response_begins_without_waiting_for_a_heartbeat(
    storage: tuple[Ledger, Checkpointer],
) -> None:
    ledger: Any = LosingLedger(storage[0])
    catalog = Catalog()
    catalog.serve("g", build_graph("g", lambda state: {"first": 1}))
    settings = ServiceSettings(lease=36_000, poll_interval=36_000)
    async with Service(catalog, ledger=ledger, saver=storage[1], settings=settings) as service:  # type: ignore[arg-type]
        while service.worker is None or not service.worker.has_free_capacity:
            await asyncio.sleep(0.01)
        with pytest.raises(StorageUnavailable):
            await service.start(WS, StartRun(graph="g", input={}, idempotency_key="k"))
        again = await service.start(WS, StartRun(graph="g", input={}, idempotency_key="k"))
        assert (again.created, ledger.losses) == (False, 1)
        assert (await service.wait(WS, again.run.id, TIMEOUT)).status is RunStatus.COMPLETED
