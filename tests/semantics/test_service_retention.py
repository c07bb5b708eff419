"""Retention concurrent with everything else: data in use is kept, whenever its use begins."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, Places, rested, run_to_rest, serving, until

from statewright import START, Runtime, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.errors import NotFound, RequestConflict
from statewright.runs import ENDED, Insert, Run, RunStatus, Workspace
from statewright.service import Catalog, Service, ServiceSettings
from statewright.service.background.retention import Retention

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(look_every=3600, lease=3600, drain=0.2)
"""Nothing happens by the passing of time."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


Happens = Callable[[], Coroutine[Any, Any, object]]


class Stops:
    """A ledger or a saver that calls a function just before one of its calls; all of them share the counter."""

    def __init__(self, storage: Any, counter: Counter) -> None:
        self._storage, self._counter = storage, counter

    def for_workspace(self, workspace: str) -> Stops:
        return Stops(self._storage.for_workspace(workspace), self._counter)

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

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        self.calls = 0
        self._at, self._happens = at, happens

    def count(self) -> None:
        self.calls += 1
        if self.calls == self._at:
            self._happens()


class Case:
    """A conversation whose only run is old, and a sweep during which something happens."""

    def __init__(self, places: Places, *, fails: bool) -> None:
        self.views = places.views()
        self.fails = fails
        self.asks = False
        self.catalog = Catalog()
        self.catalog.serve("g", self._graph())
        self.service = Service(self.catalog, settings=SETTINGS, **self.views)
        self.new: Run | None = None
        """The run that has the conversation after the sweep, and waits for an answer."""

    def _graph(self) -> StateGraph:
        def answers(state: State) -> State:
            if self.fails:
                raise ValueError("not yet")
            return {"log": [interrupt("what?") if self.asks else "done"]}

        return StateGraph(State, name="g").add_node(answers).add_edge(START, "answers")

    async def keep_for_a_month(self) -> None:
        await keep_for_a_month(self.service)

    async def sweep(self, **views: Any) -> None:
        await Retention(**{**self.views, **views}).sweep(self.service.clock.now() + timedelta(days=40))

    async def sweep_meanwhile(self, at: int, happens: Happens) -> bool:
        """Forget what is old, on another thread, while something happens at a call; whether it makes so many calls."""
        return await self._meanwhile(at, happens, self.sweep)

    async def edit_meanwhile(self, at: int, happens: Happens) -> bool:
        """Edit the thread in the same way, unless it is gone."""

        async def edit(**views: Any) -> None:
            editing = Service(self.catalog, settings=SETTINGS, **views)
            with suppress(NotFound, RequestConflict):
                await editing.threads.update(WS, "t", {"log": ["edit"]}, as_node="answers")

        return await self._meanwhile(at, happens, edit)

    async def _meanwhile(self, at: int, happens: Happens, work: Callable[..., Coroutine[Any, Any, object]]) -> bool:
        loop = asyncio.get_running_loop()

        def happen() -> None:
            asyncio.run_coroutine_threadsafe(happens(), loop).result(PATIENCE)

        counter = Counter(at, happen)
        views = {name: Stops(view, counter) for name, view in self.views.items()}
        await asyncio.to_thread(lambda: asyncio.run(work(**views)))
        return counter.calls >= at

    async def start_another(self) -> None:
        """Go on with the conversation."""
        self.asks = True
        self.new = await run_to_rest(self.service, "g", {"log": ["two"]}, thread_id="t")
        assert self.new.status is RunStatus.WAITING

    async def retry(self) -> None:
        """Try the old run again, unless it is forgotten or being forgotten."""
        self.fails, self.asks = False, True
        with suppress(NotFound, RequestConflict):
            self.new = await rested(self.service, await self.service.retry(WS, self.old.id))

    async def sweep_and_retry(self) -> None:
        await self.sweep()
        await self.retry()

    async def begin(self) -> None:
        self.old = await run_to_rest(self.service, "g", {"log": ["one"]}, thread_id="t")
        assert self.old.status is (RunStatus.FAILED if self.fails else RunStatus.COMPLETED)

    async def output(self) -> Any:
        """Let the run that waits come to its end."""
        assert self.new is not None
        assert (await self.service.run(WS, self.new.id)).status is RunStatus.WAITING
        (wait,) = (await self.service.waits(WS, run_id=self.new.id)).items
        await self.service.answer(WS, self.new.id, {wait.id: "three"})
        done = await until(lambda: ended(self.service, self.new))
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


ON = ["memory", pytest.param("sqlite", marks=pytest.mark.full)]


@pytest.mark.parametrize("on", ON)
async def test_a_conversation_that_continues_while_its_old_run_is_forgotten_stays(on: str, tmp_path: Path) -> None:
    at, whole = 0, 0
    while True:
        at += 1
        places = Places(tmp_path / f"{at}.db" if on == "sqlite" else None)
        case = Case(places, fails=False)
        async with case.service:
            await case.keep_for_a_month()
            await case.begin()
            if not await case.sweep_meanwhile(at, case.start_another):
                break
            output = await case.output()
            assert output in (["one", "done", "two", "three"], ["two", "three"]), at
            whole += len(output) == 4
        places.close()
    places.close()
    assert at > 4
    assert whole > 2


@pytest.mark.parametrize("meanwhile", ["retry", "sweep_and_retry"])
@pytest.mark.parametrize("on", ON)
async def test_a_run_that_is_retried_while_it_is_forgotten_has_its_thread(
    on: str, meanwhile: str, tmp_path: Path
) -> None:
    at, retried = 0, 0
    while True:
        at += 1
        places = Places(tmp_path / f"{at}.db" if on == "sqlite" else None)
        case = Case(places, fails=True)
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
        places.close()
    places.close()
    assert at > 4
    assert bool(retried) == (meanwhile == "retry")


@pytest.mark.parametrize("on", ON)
async def test_two_runs_of_one_thread_that_are_forgotten_at_once_leave_no_thread(on: str, tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        places = Places(tmp_path / f"{at}.db" if on == "sqlite" else None)
        case = Case(places, fails=False)
        async with case.service as service:
            await case.keep_for_a_month()
            await case.begin()
            await run_to_rest(service, "g", {"log": ["another one"]}, thread_id="t")
            is_reached = await case.sweep_meanwhile(at, case.sweep)
            assert (await aresolve(case.views["ledger"].count(Run)), await case.has_thread()) == (0, False), at
        places.close()
        if not is_reached:
            break
    assert at > 4


@pytest.mark.parametrize("on", ON)
async def test_an_edit_makes_no_thread_again_that_is_forgotten_meanwhile(on: str, tmp_path: Path) -> None:
    at, edited = 0, 0
    while True:
        at += 1
        places = Places(tmp_path / f"{at}.db" if on == "sqlite" else None)
        case = Case(places, fails=False)
        async with case.service:
            await case.keep_for_a_month()
            await case.begin()
            is_reached = await case.edit_meanwhile(at, case.sweep)
            assert await case.has_old() == await case.has_thread() == (not is_reached), at
            edited += is_reached
        places.close()
        if not is_reached:
            break
    assert edited > 4


# -- runs that others have started


@pytest.mark.parametrize("wait", [False, True])
async def test_a_run_that_a_node_starts_begins_once_though_it_is_forgotten(place: Places, wait: bool) -> None:
    began: list[str] = []

    def starts(state: State, runtime: Runtime) -> State:
        runtime.start_run("child", {"log": []}, wait=wait)
        return {"log": [interrupt("go on?")]}

    def begins(state: State) -> State:
        began.append("child")
        return {"log": ["child"]}

    parent = StateGraph(State, name="parent").add_node(starts).add_edge(START, "starts")
    child = StateGraph(State, name="child").add_node(begins).add_edge(START, "begins")
    async with serving(place, parent, child, settings=SETTINGS) as service:
        ledger = service.context.ledger
        await keep_for_a_month(service)
        run = await run_to_rest(service, "parent", {"log": []})

        async def wait_of_parent() -> Any:
            ended = [one for one in await aresolve(ledger.find(Run)) if one.status is RunStatus.COMPLETED]
            waits = (await service.waits(WS, run_id=run.id)).items
            asked = [one for one in waits if one.event is None]
            return asked[0] if ended and asked and (await service.run(WS, run.id)).claim is None else None

        question = await until(wait_of_parent)
        retention = Retention(ledger, service.context.saver)
        later = service.clock.now() + timedelta(days=31)
        await retention.sweep(later)
        await service.answer(WS, run.id, {question.id: "yes"})
        done = await until(lambda: ended(service, run))
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": ["yes"]})
        assert await aresolve(ledger.count(Run)) == 2
        await until(lambda: _are_all_completed(service))
        assert began == ["child"]
        await Retention(ledger, service.context.saver).sweep(later)
        await Retention(ledger, service.context.saver).sweep(later + timedelta(days=31))
        assert await aresolve(ledger.count(Run)) == 0


async def _are_all_completed(service: Service) -> bool:
    runs = await aresolve(service.context.ledger.find(Run))
    return all(run.status is RunStatus.COMPLETED for run in runs)
