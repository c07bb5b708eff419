"""Any call of a ledger or a saver may fail while a service runs; each run still ends.

The calls that a service makes from the start of a run to its end are counted, and the k-th one fails: before it takes
effect, or after it, so that its answer is lost. `STATEWRIGHT_FULL=1` makes each of them fail in turn.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import pytest
from tests.durability.served import chain, listens, one, starts, three, two
from tests.semantics.on_services import PATIENCE, WS, RunStorage, serving

from statewright import START, StateGraph, sleep
from statewright.errors import DamagedDatabase, InvalidTransition, StorageError, StorageUnavailable
from statewright.runs import ENDED, Run, RunStatus
from statewright.service import Service, ServiceSettings, StartRun

pytestmark = pytest.mark.anyio
FULL: Final = os.environ.get("STATEWRIGHT_FULL") == "1"
LEDGER: Final = ("write", "get", "find", "count", "groups", "events", "claim")
SAVER: Final = ("commit", "save_results", "load", "lease", "renew", "history", "read", "claim", "release")
SETTINGS: Final = ServiceSettings(lease=0.3, poll_interval=0.02)
"""Short times, so that tests do not wait long; no result depends on them."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Fault:
    """Makes one of many calls fail."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0
        self.at: int | None = None
        self.when = "before"
        self.error: Callable[[], StorageError] = lambda: StorageUnavailable("injected")
        self.hits: list[str] = []

    def arm(self, at: int | None, when: str = "before", error: Any = None) -> None:
        with self._lock:
            self.calls, self.at, self.when = 0, at, when
            self.error = error or (lambda: StorageUnavailable("injected"))

    def wrap(self, storage: Any, names: tuple[str, ...]) -> Any:
        return Faulty(storage, names, self)

    def is_hit(self, name: str) -> bool:
        with self._lock:
            self.calls += 1
            is_hit = self.calls == self.at
            if is_hit:
                self.hits.append(name)
            return is_hit


class Faulty:
    """A ledger or a saver with calls that fail."""

    def __init__(self, storage: Any, names: tuple[str, ...], fault: Fault) -> None:
        self._storage, self._names, self._fault = storage, names, fault

    def for_workspace(self, workspace: str) -> Self:
        return type(self)(self._storage.for_workspace(workspace), self._names, self._fault)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name not in self._names:
            return method

        def call(*args: Any, **options: Any) -> Any:
            if not self._fault.is_hit(name):
                return method(*args, **options)
            if self._fault.when == "after":
                with suppress(StorageError):
                    answer = method(*args, **options)
                    if hasattr(answer, "result"):
                        answer.result()
            raise self._fault.error()

        return call


def naps(state: Any) -> Any:
    sleep(timedelta(milliseconds=1))
    return {"log": ["slept"]}


def fan() -> StateGraph:
    graph = chain("fan", one)
    for name, node in (("left", two), ("right", three)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph


APPROVED: Final = {
    "name": "approved",
    "version": "1",
    "steps": [
        {"type": "task", "name": "write", "handler": "siege-count"},
        {"type": "approval", "name": "ask", "contentKey": "log", "prompt": "May it?"},
    ],
}
GRAPHS: Final = (
    chain("steps", one, two, three),
    chain("timer", one, naps, three),
    chain("signal", one, listens, three),
    chain("parent", one, starts),
    fan(),
)
EXPECTED: Final[dict[str, Any]] = {
    "steps": ["one", "two", "three"],
    "timer": ["one", "slept", "three"],
    "signal": ["one", 7, "three"],
    "parent": ["one", "one", "two", "three"],
    "fan": ["one", "two", "three"],
}


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStorage]:
    run_storage = RunStorage(None if request.param == "memory" else tmp_path / "runs.db")
    yield run_storage
    run_storage.close()


class Faulted:
    """A storage of a service with a ledger and a saver that fail."""

    def __init__(self, storage: RunStorage) -> None:
        self.fault = Fault()
        self._views = storage.views()

    def views(self) -> dict[str, Any]:
        ledger, saver = self._views["ledger"], self._views["saver"]
        return {"ledger": self.fault.wrap(ledger, LEDGER), "saver": self.fault.wrap(saver, SAVER)}


async def retried(call: Callable[[], Any]) -> Any:
    """Repeat a request while the storage fails, as a client would, and return its answer."""
    while True:
        try:
            return await call()
        except StorageError:
            await asyncio.sleep(0)


async def run_to_end(service: Service, graph: str, key: str) -> Run:
    """Start a run, provide everything that it waits for, and return it when it has ended."""
    request = StartRun(graph=graph, input={"n": 1, "log": []}, idempotency_key=key)
    run_id = (await retried(lambda: service.start(WS, request))).run.id
    if graph == "signal":
        with suppress(InvalidTransition):  # the run may have failed already
            await retried(lambda: service.signal(WS, run_id, "go", {"n": 7}, key="once"))
    async with asyncio.timeout(PATIENCE):
        while True:
            run: Run = await retried(lambda: service.wait(WS, run_id, PATIENCE))
            if run.status in ENDED:
                return run
            for approval in (await retried(lambda: service.approvals(WS, pending=True, run_id=run_id))).items:
                with suppress(Exception):  # the decision may have been saved although its answer was lost
                    await retried(lambda approval=approval: service.decide(WS, approval.id, "approved"))


def check(run: Run, graph: str, where: str) -> None:
    if graph == "parent" and run.status is RunStatus.FAILED:  # the node that starts a run gets the error
        assert run.error is not None
        assert (run.error["step"], run.error["code"]) == ("starts", StorageUnavailable("").code), where
        return
    assert run.status is RunStatus.COMPLETED, f"{where}: {run.status} {run.error}"
    if graph in EXPECTED:
        assert run.output is not None
        assert run.output["log"] == EXPECTED[graph], where


def calls_to_fail(calls: int, graph: str) -> range:
    """The numbers of the calls that fail; the first number depends on the graph.

    It is small enough for every run: on a busy machine runs poll and renew a varying number of times.
    """
    every = 1 if FULL else max(1, calls // 3)
    return range(1 + sum(graph.encode()) % min(every, 5), calls + 1, every)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("graph", [*EXPECTED, "approved"])
@pytest.mark.sampled(2)
async def test_a_run_ends_if_any_call_of_the_storage_fails_once(storage: RunStorage, graph: str, when: str) -> None:
    faulted: Any = Faulted(storage)
    fault: Fault = faulted.fault
    async with serving(faulted, *GRAPHS, APPROVED, settings=SETTINGS) as service:
        fault.arm(None)
        check(await run_to_end(service, graph, "clean"), graph, "without a fault")
        for number in calls_to_fail(fault.calls + 3, graph):
            fault.arm(number, when)
            run = await run_to_end(service, graph, f"fault-{number}")
            check(run, graph, f"call {number}: {fault.hits[-1:]}")
    assert fault.hits


async def test_a_run_ends_after_unexpected_errors_of_the_storage(storage: RunStorage) -> None:
    faulted: Any = Faulted(storage)
    fault: Fault = faulted.fault
    async with serving(faulted, *GRAPHS, settings=SETTINGS) as service:
        fault.arm(None)
        await run_to_end(service, "signal", "clean")
        for number in calls_to_fail(fault.calls, "signal"):
            fault.arm(number, "before", lambda: DamagedDatabase("injected"))
            run = await run_to_end(service, "signal", f"fault-{number}")
            if run.status is not RunStatus.COMPLETED:
                assert run.status is RunStatus.FAILED, run
                assert "injected" in str(run.error), run.error
    assert fault.hits


# -- faults of the machine


class Outage(Fault):
    """Makes the file unusable from the k-th write until a number of calls have failed."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        super().__init__()
        self._begin, self._end = begin, end
        self.is_active = False
        self.failures = 0

    def wrap(self, storage: Any, names: tuple[str, ...]) -> Any:
        return Interrupted(storage, names, self)

    def before(self, name: str) -> None:
        if name in WRITES and self.is_hit(name):
            with self._lock:
                self.failures, self.is_active = 0, True
                self._begin()

    def failed(self) -> None:
        with self._lock:
            self.failures += 1
            if self.failures >= ENOUGH:
                self._mend()

    def mend(self) -> None:
        with self._lock:
            self.at = None
            self._mend()

    def _mend(self) -> None:
        if self.is_active:
            self.is_active = False
            self._end()


WRITES: Final = ("write", "claim", "commit", "save_results", "renew")
ENOUGH: Final = 10
"""The number of failures that ends an outage, so many that the run certainly meets one."""


class Interrupted(Faulty):
    """A ledger or a saver with a file that is unusable for some time."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name not in self._names:
            return method
        outage: Any = self._fault

        def call(*args: Any, **options: Any) -> Any:
            outage.before(name)
            try:
                answer = method(*args, **options)
            except StorageError:
                outage.failed()
                raise
            if hasattr(answer, "add_done_callback"):
                answer.add_done_callback(notice)
            return answer

        def notice(done: Any) -> None:
            try:
                done.result()
            except StorageError:
                outage.failed()

        return call


def moved(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    away = path.with_suffix(".away")
    return lambda: os.rename(path, away), lambda: os.rename(away, path)


def locked(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    other = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    return lambda: other.execute("BEGIN IMMEDIATE") and None, lambda: other.rollback()


def full(path: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    return (
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1])),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before),
    )


@pytest.mark.parametrize("kind", [moved, locked, full])
@pytest.mark.parametrize("graph", ["timer", "signal", "approved"])
@pytest.mark.sampled(3)
async def test_a_run_ends_after_a_temporary_outage_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: str, kind: Any
) -> None:
    monkeypatch.setattr("statewright.storage.sqlite.database.BUSY_TIMEOUT", 0.02)
    path = tmp_path / "runs.db"
    storage = RunStorage(path)
    faulted: Any = Faulted(storage)
    begin, end = kind(path)
    outage = faulted.fault = Outage(begin, end)
    async with serving(faulted, *GRAPHS, APPROVED, settings=SETTINGS) as service:
        outage.arm(None)
        check(await run_to_end(service, graph, "clean"), graph, "without a fault")
        for write in calls_to_fail(outage.calls + 2, graph + kind.__name__):
            outage.arm(write)
            run = await run_to_end(service, graph, f"fault-{write}")
            outage.mend()  # the outage may have begun just after the run ended
            check(run, graph, f"{kind.__name__} at write {write}: {outage.hits[-1:]}")
    storage.close()
    assert outage.hits
