"""Every call of a ledger or a saver may fail while a service works: once the fault is gone, each run ends.

The calls that a service makes from the start of a run to its end are counted, and the k-th one fails: before it has
done its work, or after it, so that the answer is lost. `STATEWRIGHT_FULL=1` lets every single one fail.
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
from tests.semantics.on_services import PATIENCE, WS, Places, serving

from statewright import START, StateGraph, sleep
from statewright.errors import DamagedDatabase, InvalidTransition, StorageError, StorageUnavailable
from statewright.runs import ENDED, Run, RunStatus
from statewright.service import Service, ServiceSettings, StartRun

pytestmark = pytest.mark.anyio
FULL: Final = os.environ.get("STATEWRIGHT_FULL") == "1"
LEDGER: Final = ("write", "get", "find", "count", "groups", "events", "claim")
SAVER: Final = ("commit", "save_results", "load", "lease", "renew", "history", "read", "claim", "release")
SETTINGS: Final = ServiceSettings(lease=0.3, look_every=0.02)
"""Short, so that a test need not wait for long; nothing depends on them."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Fault:
    """Lets one call of many fail."""

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

    def wrap(self, place: Any, names: tuple[str, ...]) -> Any:
        return Faulty(place, names, self)

    def strikes(self, name: str) -> bool:
        with self._lock:
            self.calls += 1
            struck = self.calls == self.at
            if struck:
                self.hits.append(name)
            return struck


class Faulty:
    """A ledger or a saver, some of whose calls fail."""

    def __init__(self, place: Any, names: tuple[str, ...], fault: Fault) -> None:
        self._place, self._names, self._fault = place, names, fault

    def for_workspace(self, workspace: str) -> Self:
        return type(self)(self._place.for_workspace(workspace), self._names, self._fault)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._place, name)
        if name not in self._names:
            return method

        def call(*args: Any, **options: Any) -> Any:
            if not self._fault.strikes(name):
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
WANTED: Final[dict[str, Any]] = {
    "steps": ["one", "two", "three"],
    "timer": ["one", "slept", "three"],
    "signal": ["one", 7, "three"],
    "parent": ["one", "one", "two", "three"],
    "fan": ["one", "two", "three"],
}


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    places = Places(None if request.param == "memory" else tmp_path / "runs.db")
    yield places
    places.close()


class Faulted:
    """Where a service works on a ledger and a saver that fail."""

    def __init__(self, place: Places) -> None:
        self.fault = Fault()
        self._views = place.views()

    def views(self) -> dict[str, Any]:
        ledger, saver = self._views["ledger"], self._views["saver"]
        return {"ledger": self.fault.wrap(ledger, LEDGER), "saver": self.fault.wrap(saver, SAVER)}


async def again(call: Callable[[], Any]) -> Any:
    """The answer of a request that is made again while the storage fails, as a client does."""
    while True:
        try:
            return await call()
        except StorageError:
            await asyncio.sleep(0)


async def live(service: Service, graph: str, key: str) -> Run:
    """A run from its start to its end, with whatever it waits for on the way."""
    wanted = StartRun(graph=graph, input={"n": 1, "log": []}, idempotency_key=key)
    run_id = (await again(lambda: service.start(WS, wanted))).run.id
    if graph == "signal":
        with suppress(InvalidTransition):  # it has failed already
            await again(lambda: service.signal(WS, run_id, "go", {"n": 7}, key="once"))
    async with asyncio.timeout(PATIENCE):
        while True:
            run: Run = await again(lambda: service.wait(WS, run_id, PATIENCE))
            if run.status in ENDED:
                return run
            for approval in (await again(lambda: service.approvals(WS, pending=True, run_id=run_id))).items:
                with suppress(Exception):  # the answer to a decision that was taken may have been lost
                    await again(lambda approval=approval: service.decide(WS, approval.id, "approved"))


def check(run: Run, graph: str, where: str) -> None:
    if graph == "parent" and run.status is RunStatus.FAILED:  # the node that starts a run is told that it cannot
        assert run.error is not None
        assert (run.error["step"], run.error["code"]) == ("starts", StorageUnavailable("").code), where
        return
    assert run.status is RunStatus.COMPLETED, f"{where}: {run.status} {run.error}"
    if graph in WANTED:
        assert run.output is not None
        assert run.output["log"] == WANTED[graph], where


def calls_to_fail(calls: int, graph: str) -> range:
    """The numbers of the calls that fail; other graphs begin with others.

    The first is one that every run makes: a busy machine looks and renews more often in one run than in the next.
    """
    every = 1 if FULL else max(1, calls // 3)
    return range(1 + sum(graph.encode()) % min(every, 5), calls + 1, every)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("graph", [*WANTED, "approved"])
async def test_a_run_ends_whichever_call_of_the_storage_fails_once(place: Places, graph: str, when: str) -> None:
    faulted: Any = Faulted(place)
    fault: Fault = faulted.fault
    async with serving(faulted, *GRAPHS, APPROVED, settings=SETTINGS) as service:
        fault.arm(None)
        check(await live(service, graph, "clean"), graph, "without a fault")
        for place_of_fault in calls_to_fail(fault.calls + 3, graph):
            fault.arm(place_of_fault, when)
            run = await live(service, graph, f"fault-{place_of_fault}")
            check(run, graph, f"call {place_of_fault}: {fault.hits[-1:]}")
    assert fault.hits


async def test_a_run_ends_although_its_worker_meets_unexpected_errors(place: Places) -> None:
    faulted: Any = Faulted(place)
    fault: Fault = faulted.fault
    async with serving(faulted, *GRAPHS, settings=SETTINGS) as service:
        fault.arm(None)
        await live(service, "signal", "clean")
        for place_of_fault in calls_to_fail(fault.calls, "signal"):
            fault.arm(place_of_fault, "before", lambda: DamagedDatabase("injected"))
            run = await live(service, "signal", f"fault-{place_of_fault}")
            if run.status is not RunStatus.COMPLETED:
                assert run.status is RunStatus.FAILED, run
                assert "injected" in str(run.error), run.error
    assert fault.hits


# -- faults of the machine


class Outage(Fault):
    """From the k-th write on the file cannot be used, until a number of calls have failed."""

    def __init__(self, begin: Callable[[], None], end: Callable[[], None]) -> None:
        super().__init__()
        self._begin, self._end = begin, end
        self.lasts = False
        self.failures = 0

    def wrap(self, place: Any, names: tuple[str, ...]) -> Any:
        return Interrupted(place, names, self)

    def before(self, name: str) -> None:
        if name in WRITES and self.strikes(name):
            with self._lock:
                self.failures, self.lasts = 0, True
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
        if self.lasts:
            self.lasts = False
            self._end()


WRITES: Final = ("write", "claim", "commit", "save_results", "renew")
ENOUGH: Final = 10
"""Failures after which a run has met one: what it was to save was not saved, nor that it was put off."""


class Interrupted(Faulty):
    """A ledger or a saver whose file is taken away, and comes back."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._place, name)
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
async def test_a_run_ends_though_the_file_could_not_be_used_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graph: str, kind: Any
) -> None:
    monkeypatch.setattr("statewright.storage.sqlite.database.BUSY_TIMEOUT", 0.02)
    path = tmp_path / "runs.db"
    place = Places(path)
    faulted: Any = Faulted(place)
    begin, end = kind(path)
    outage = faulted.fault = Outage(begin, end)
    async with serving(faulted, *GRAPHS, APPROVED, settings=SETTINGS) as service:
        outage.arm(None)
        check(await live(service, graph, "clean"), graph, "without a fault")
        for write in calls_to_fail(outage.calls + 2, graph + kind.__name__):
            outage.arm(write)
            run = await live(service, graph, f"fault-{write}")
            outage.mend()  # it may have begun when the run had just ended
            check(run, graph, f"{kind.__name__} at write {write}: {outage.hits[-1:]}")
    place.close()
    assert outage.hits
