"""A run with `on_busy="rollback"` undoes all changes of the previous run to the thread, or none."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, GatedStorage, RunStorage, run_until_idle, serving, wait_until
from tests.semantics.test_service_takeovers import gates_of_attempts

from statewright import START, StateGraph, interrupt
from statewright.errors import StorageUnavailable
from statewright.ids import new_run_id
from statewright.runs import RunStatus
from statewright.service import Catalog, Service, ServiceSettings, StartRun

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_interval=3600, lease=3600, drain=0.2)
"""The passing of time triggers nothing."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def build_graph() -> StateGraph:
    """Return a graph that logs a step, and asks a question unless its input is `at once`."""

    def first(state: State) -> State:
        return {"log": ["first"]}

    def ask(state: State) -> State:
        return {} if state["log"][-2] == "at once" else {"log": [interrupt("go on?")]}

    graph = StateGraph(State, name="g").add_node(first).add_node(ask)
    return graph.add_edge(START, "first").add_edge("first", "ask")


async def values(service: Service) -> Any:
    return (await service.threads.state(WS, "t"))["values"]["log"]


# -- threads that were edited while the run waited


Edit = Callable[[Service], Awaitable[Any]]


async def update(service: Service) -> None:
    await service.threads.update(WS, "t", {"log": ["edit"]})


async def fork_head(service: Service) -> None:
    head = (await service.threads.state(WS, "t"))["checkpointId"]
    await service.threads.fork(WS, "t", head)


EDITS: dict[str, list[Edit]] = {
    "none": [],
    "an update": [update],
    "a fork": [fork_head],
    "two updates": [update, update],
    "an update and a fork": [update, fork_head],
    "a fork and an update": [fork_head, update],
}


@pytest.mark.parametrize("edits", EDITS)
async def test_a_rollback_undoes_a_run_whose_thread_was_edited(run_storage: RunStorage, edits: str) -> None:
    async with serving(run_storage, build_graph(), settings=SETTINGS) as service:
        before = await run_until_idle(service, "g", {"log": ["zero"]}, thread_id="t")
        assert before.status is RunStatus.WAITING
        for edit in EDITS[edits]:
            await edit(service)
        assert (await service.run(WS, before.id)).status is RunStatus.WAITING
        run = await run_until_idle(service, "g", {"log": ["two"]}, thread_id="t", on_busy="rollback")
        assert run.status is RunStatus.WAITING
        assert await values(service) == ["two", "first"]
        assert (await service.run(WS, before.id)).status is RunStatus.CANCELLED


async def test_a_rollback_keeps_the_state_and_edits_before_the_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, build_graph(), settings=SETTINGS) as service:
        await run_until_idle(service, "g", {"log": ["at once"]}, thread_id="t")
        await update(service)
        await run_until_idle(service, "g", {"log": ["zero"]}, thread_id="t")
        await update(service)
        await run_until_idle(service, "g", {"log": ["two"]}, thread_id="t", on_busy="rollback")
        assert await values(service) == ["at once", "first", "edit", "two", "first"]


async def test_a_rollback_does_not_undo_a_run_that_an_edit_has_already_undone(run_storage: RunStorage) -> None:
    """The fork has set the thread back to the run before, which must not be undone."""
    async with serving(run_storage, build_graph(), settings=SETTINGS) as service:
        await run_until_idle(service, "g", {"log": ["at once"]}, thread_id="t")
        head = (await service.threads.state(WS, "t"))["checkpointId"]
        settings = {"interruptBefore": ["first"]}
        paused = await run_until_idle(service, "g", {"log": ["zero"]}, thread_id="t", settings=settings)
        assert paused.status is RunStatus.PAUSED
        await service.threads.fork(WS, "t", head)
        await update(service)
        await run_until_idle(service, "g", {"log": ["two"]}, thread_id="t", on_busy="rollback")
        assert await values(service) == ["at once", "first", "edit", "two", "first"]
        assert (await service.run(WS, paused.id)).status is RunStatus.CANCELLED


class SaverFailingOnce:
    """A saver that is unavailable once: for the first commit after a rollback."""

    def __init__(self, saver: Any, state: dict[str, bool]) -> None:
        self._saver, self._state = saver, state

    def for_workspace(self, workspace: str) -> SaverFailingOnce:
        return SaverFailingOnce(self._saver.for_workspace(workspace), self._state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._saver, name)

    def commit(self, commit: Any, **options: Any) -> Any:
        if "rolled_back" in commit.metadata:
            self._state.setdefault("fails", True)
        elif self._state.get("fails"):
            self._state["fails"] = False
            raise StorageUnavailable("not now")
        return self._saver.commit(commit, **options)


async def test_a_repeated_attempt_after_a_rollback_undoes_nothing_more(run_storage: RunStorage) -> None:
    """Only the last run is undone, even if it had interrupted another run."""
    views, state = run_storage.views(), dict[str, bool]()
    views["saver"] = SaverFailingOnce(views["saver"], state)
    catalog = Catalog()
    catalog.serve("g", build_graph())
    async with Service(catalog, settings=SETTINGS, **views) as service:
        await run_until_idle(service, "g", {"log": ["zero"]}, thread_id="t")
        await run_until_idle(service, "g", {"log": ["one"]}, thread_id="t", on_busy="interrupt")
        assert await values(service) == ["zero", "first", "one", "first"]
        await update(service)
        await run_until_idle(service, "g", {"log": ["two"]}, thread_id="t", on_busy="rollback")
        assert await values(service) == ["zero", "first", "two", "first"]
    assert state == {"fails": False}


# -- runs that are cancelled while they begin


class CancelledRollback:
    """A run that starts with a rollback, and that another process cancels at a call of its worker to storage."""

    def __init__(self, run_storage: RunStorage) -> None:
        self.gates = gates_of_attempts()
        views = run_storage.views()
        self.service = self._service({name: GatedStorage(view, self.gates) for name, view in views.items()})
        self.other = self._service(run_storage.views())
        self.run_id = f"run_{new_run_id()}"
        self.outcome: tuple[RunStatus, Any] | None = None
        """The status of the run after its cancellation, and the values of the thread at that time."""

    def _service(self, views: dict[str, Any]) -> Service:
        catalog = Catalog()
        catalog.serve("g", build_graph())
        return Service(catalog, settings=SETTINGS, **views)

    def cancel(self) -> None:
        """Cancel the run, while the caller waits."""
        with ThreadPoolExecutor(1) as pool:
            self.outcome = pool.submit(asyncio.run, self._cancel()).result(PATIENCE)

    async def _cancel(self) -> tuple[RunStatus, Any]:
        run = await self.other.cancel(WS, self.run_id)
        return run.status, await values(self.other)

    async def is_idle(self) -> bool:
        assert self.service.worker is not None
        return self.service.worker.active_runs == 0

    async def is_done(self) -> bool:
        run = await self.service.run(WS, self.run_id)
        return run.claim is None and run.status is not RunStatus.PENDING and await self.is_idle()


@pytest.mark.parametrize("storage", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
async def test_a_cancelled_run_no_longer_changes_its_thread(storage: str, tmp_path: Path) -> None:
    at = 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = CancelledRollback(run_storage)
        service = case.service
        async with service:
            before = await run_until_idle(service, "g", {"log": ["zero"]}, thread_id="t")
            assert before.status is RunStatus.WAITING
            await wait_until(case.is_idle)
            case.gates.arm(at, case.cancel)
            request = StartRun(graph="g", thread_id="t", run_id=case.run_id, input={"log": ["two"]}, on_busy="rollback")
            run = (await service.start(WS, request)).run
            await wait_until(case.is_done)
            if case.outcome is None:  # the attempt made fewer calls
                break
            status, expected = case.outcome
            assert await values(service) == expected, at
            if status is RunStatus.CANCELLED:
                assert (await service.run(WS, run.id)).status is RunStatus.CANCELLED, at
        run_storage.close()
    run_storage.close()
    assert at > 4
