"""Retention runs concurrently with other operations: data in use is kept, whenever its use begins."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, RunStorage, run_until_idle, serving, wait_until, wait_until_idle

from statewright import START, Runtime, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.errors import NotFound, RequestConflict
from statewright.runs import ENDED, Insert, Run, RunStatus, Workspace
from statewright.service import Catalog, Service, ServiceSettings
from statewright.service.background.retention import Retention

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_interval=3600, lease=3600, drain=0.2)
"""The passing of time triggers nothing."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


Action = Callable[[], Coroutine[Any, Any, object]]


class CountedStorage:
    """A ledger or a saver whose calls are counted by a shared counter."""

    def __init__(self, storage: Any, counter: Counter) -> None:
        self._storage, self._counter = storage, counter

    def for_workspace(self, workspace: str) -> CountedStorage:
        return CountedStorage(self._storage.for_workspace(workspace), self._counter)

    def job(self, changes: Any) -> Any:  # part of a call of the saver
        return self._storage.job(changes)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)

        def call(*args: Any, **options: Any) -> Any:
            self._counter.count()
            return method(*args, **options)

        return call


class Counter:
    """Counts calls to storage, and calls a function just before one of them."""

    def __init__(self, at: int, callback: Callable[[], object]) -> None:
        self.calls = 0
        self._at, self._callback = at, callback

    def count(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            self._callback()


class Case:
    """A conversation whose only run is old, and a sweep with a concurrent action."""

    def __init__(self, run_storage: RunStorage, *, fails: bool) -> None:
        self.views = run_storage.views()
        self.fails = fails
        self.asks = False
        self.catalog = Catalog()
        self.catalog.serve("g", self._graph())
        self.service = Service(self.catalog, settings=SETTINGS, **self.views)
        self.new: Run | None = None
        """The run that holds the thread after the sweep, and waits for an answer."""

    def _graph(self) -> StateGraph:
        def respond(state: State) -> State:
            if self.fails:
                raise ValueError("not yet")
            return {"log": [interrupt("what?") if self.asks else "done"]}

        return StateGraph(State, name="g").add_node(respond).add_edge(START, "respond")

    async def keep_for_a_month(self) -> None:
        await keep_for_a_month(self.service)

    async def sweep(self, **views: Any) -> None:
        await Retention(**{**self.views, **views}).sweep(self.service.clock.now() + timedelta(days=40))

    async def sweep_meanwhile(self, at: int, action: Action) -> bool:
        """Sweep on another OS thread, and act just before its call number `at`. Return whether it made that call."""
        return await self._meanwhile(at, action, self.sweep)

    async def edit_meanwhile(self, at: int, action: Action) -> bool:
        """Do the same with an edit of the thread, if that still exists."""

        async def edit(**views: Any) -> None:
            editor = Service(self.catalog, settings=SETTINGS, **views)
            with suppress(NotFound, RequestConflict):
                await editor.threads.update(WS, "t", {"log": ["edit"]}, as_node="respond")

        return await self._meanwhile(at, action, edit)

    async def _meanwhile(self, at: int, action: Action, work: Callable[..., Coroutine[Any, Any, object]]) -> bool:
        loop = asyncio.get_running_loop()

        def act() -> None:
            asyncio.run_coroutine_threadsafe(action(), loop).result(PATIENCE)

        counter = Counter(at, act)
        views = {name: CountedStorage(view, counter) for name, view in self.views.items()}
        await asyncio.to_thread(lambda: asyncio.run(work(**views)))
        return counter.calls >= at

    async def start_another(self) -> None:
        """Continue the conversation with a new run."""
        self.asks = True
        self.new = await run_until_idle(self.service, "g", {"log": ["two"]}, thread_id="t")
        assert self.new.status is RunStatus.WAITING

    async def retry(self) -> None:
        """Retry the old run, unless it is deleted or being deleted."""
        self.fails, self.asks = False, True
        with suppress(NotFound, RequestConflict):
            self.new = await wait_until_idle(self.service, await self.service.retry(WS, self.old.id))

    async def sweep_and_retry(self) -> None:
        await self.sweep()
        await self.retry()

    async def begin(self) -> None:
        self.old = await run_until_idle(self.service, "g", {"log": ["one"]}, thread_id="t")
        assert self.old.status is (RunStatus.FAILED if self.fails else RunStatus.COMPLETED)

    async def output(self) -> Any:
        """Answer the waiting run, and return its output once it has completed."""
        assert self.new is not None
        assert (await self.service.run(WS, self.new.id)).status is RunStatus.WAITING
        (wait,) = (await self.service.waits(WS, run_id=self.new.id)).items
        await self.service.answer(WS, self.new.id, {wait.id: "three"})
        done = await wait_until(lambda: ended(self.service, self.new))
        assert (done.status, done.error) == (RunStatus.COMPLETED, None)
        return done.output["log"]

    async def has_thread(self) -> bool:
        return await aresolve(self.views["saver"].for_workspace(WS).load("t")) is not None

    async def has_old(self) -> bool:
        return await aresolve(self.views["ledger"].get(Run, self.old.id)) is not None


async def ended(service: Service, run: Run) -> Run | None:
    run = await service.run(WS, run.id)
    return run if run.status in ENDED else None


async def keep_for_a_month(service: Service) -> None:
    now = service.clock.now()
    await aresolve(
        service.context.ledger.write([Insert(Workspace(id=WS, slug="w", retention_days=30, created_at=now))])
    )


STORAGES = ["memory", pytest.param("sqlite", marks=pytest.mark.full)]


@pytest.mark.parametrize("storage", STORAGES)
async def test_a_conversation_that_continues_during_a_sweep_is_kept(storage: str, tmp_path: Path) -> None:
    at, complete = 0, 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = Case(run_storage, fails=False)
        async with case.service:
            await case.keep_for_a_month()
            await case.begin()
            if not await case.sweep_meanwhile(at, case.start_another):
                break
            output = await case.output()
            assert output in (["one", "done", "two", "three"], ["two", "three"]), at
            complete += len(output) == 4
        run_storage.close()
    run_storage.close()
    assert at > 4
    assert complete > 2


@pytest.mark.parametrize("meanwhile", ["retry", "sweep_and_retry"])
@pytest.mark.parametrize("storage", STORAGES)
async def test_a_run_retried_during_a_sweep_keeps_its_thread(storage: str, meanwhile: str, tmp_path: Path) -> None:
    at, retried = 0, 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = Case(run_storage, fails=True)
        async with case.service:
            await case.keep_for_a_month()
            await case.begin()
            if not await case.sweep_meanwhile(at, getattr(case, meanwhile)):
                break
            if case.new is None:
                assert (await case.has_old(), await case.has_thread()) == (False, False), at
            else:
                assert await case.output() == ["one", "three"], at
                retried += 1
        run_storage.close()
    run_storage.close()
    assert at > 4
    assert bool(retried) == (meanwhile == "retry")


@pytest.mark.parametrize("storage", STORAGES)
async def test_two_concurrent_sweeps_of_the_runs_of_a_thread_delete_the_thread(storage: str, tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = Case(run_storage, fails=False)
        async with case.service as service:
            await case.keep_for_a_month()
            await case.begin()
            await run_until_idle(service, "g", {"log": ["another one"]}, thread_id="t")
            is_reached = await case.sweep_meanwhile(at, case.sweep)
            assert (await aresolve(case.views["ledger"].count(Run)), await case.has_thread()) == (0, False), at
        run_storage.close()
        if not is_reached:
            break
    assert at > 4


@pytest.mark.parametrize("storage", STORAGES)
async def test_an_edit_does_not_recreate_a_thread_deleted_meanwhile(storage: str, tmp_path: Path) -> None:
    at, edited = 0, 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = Case(run_storage, fails=False)
        async with case.service:
            await case.keep_for_a_month()
            await case.begin()
            is_reached = await case.edit_meanwhile(at, case.sweep)
            assert await case.has_old() == await case.has_thread() == (not is_reached), at
            edited += is_reached
        run_storage.close()
        if not is_reached:
            break
    assert edited > 4


# -- runs started by other runs


@pytest.mark.parametrize("wait", [False, True])
async def test_a_child_run_starts_only_once_even_if_it_is_deleted(run_storage: RunStorage, wait: bool) -> None:
    started: list[str] = []

    def start_child(state: State, runtime: Runtime) -> State:
        runtime.start_run("child", {"log": []}, wait=wait)
        return {"log": [interrupt("go on?")]}

    def record_start(state: State) -> State:
        started.append("child")
        return {"log": ["child"]}

    parent = StateGraph(State, name="parent").add_node(start_child).add_edge(START, "start_child")
    child = StateGraph(State, name="child").add_node(record_start).add_edge(START, "record_start")
    async with serving(run_storage, parent, child, settings=SETTINGS) as service:
        ledger = service.context.ledger
        await keep_for_a_month(service)
        run = await run_until_idle(service, "parent", {"log": []})

        async def open_question() -> Any:
            completed = [each for each in await aresolve(ledger.find(Run)) if each.status is RunStatus.COMPLETED]
            waits = (await service.waits(WS, run_id=run.id)).items
            questions = [item for item in waits if item.event is None]
            return questions[0] if completed and questions and (await service.run(WS, run.id)).claim is None else None

        question = await wait_until(open_question)
        retention = Retention(ledger, service.context.saver)
        later = service.clock.now() + timedelta(days=31)
        await retention.sweep(later)
        await service.answer(WS, run.id, {question.id: "yes"})
        done = await wait_until(lambda: ended(service, run))
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": ["yes"]})
        assert await aresolve(ledger.count(Run)) == 2
        await wait_until(lambda: _are_all_completed(service))
        assert started == ["child"]
        await Retention(ledger, service.context.saver).sweep(later)
        await Retention(ledger, service.context.saver).sweep(later + timedelta(days=31))
        assert await aresolve(ledger.count(Run)) == 0


async def _are_all_completed(service: Service) -> bool:
    runs = await aresolve(service.context.ledger.find(Run))
    return all(run.status is RunStatus.COMPLETED for run in runs)
