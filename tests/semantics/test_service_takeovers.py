"""A worker stalls at any of its calls to the database until another worker has taken over its run.

The first worker then counts as dead, but continues. Whatever it does must have no effect: it calls no more nodes of the
run, the thread stays with the other worker, and the run ends as if only that worker had executed it.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, GatedStorage, Gates, RunStorage, wait_until, wait_until_idle

from statewright import START, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.ids import new_run_id
from statewright.runs import Run, RunStatus, UpdateAll, Wait, Worker, where
from statewright.service import Catalog, Service, ServiceSettings, StartRun

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_interval=3600, lease=3600, drain=0.2)
"""Workers look for work when they start and when they are notified; the passing of time triggers nothing."""
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
GATED = ("load", "commit", "save_results", "renew", "lease", "find", "get", "write")


class State(TypedDict, total=False):
    kind: str
    """`asking` if the first node asks a question, else `plain`."""
    log: Annotated[list[Any], operator.add]


def gates_of_attempts() -> Gates:
    """Return gates for all calls that attempts at runs make."""
    return Gates(*GATED, counts=_is_of_attempt)


def _is_of_attempt() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # on a thread that the attempt has started
        return True
    return task is not None and task.get_name().startswith("run ")


class Process:
    """A service with a graph that records which of its nodes are called."""

    def __init__(self, views: dict[str, Any]) -> None:
        self.called: list[str] = []
        self.fails = False
        self.is_held = threading.Event()
        self.go_on = threading.Event()
        catalog = Catalog()
        catalog.serve("g", self._graph())
        self.service = Service(catalog, settings=SETTINGS, **views)

    def _graph(self) -> StateGraph:
        def opening(state: State) -> State:
            self.called.append("opening")
            if self.fails:
                raise ValueError("not yet")
            return {"log": [interrupt("first") if state.get("kind") == "asking" else "opened"]}

        def held(state: State) -> State:
            self.called.append("held")
            self.is_held.set()
            assert self.go_on.wait(PATIENCE)
            return {"log": ["held"]}

        def closing(state: State) -> State:
            self.called.append("closing")
            return {"log": [interrupt("last")]}

        graph = StateGraph(State, name="g").add_node(opening).add_node(held).add_node(closing)
        return graph.add_edge(START, "opening").add_edge("opening", "held").add_edge("held", "closing")

    async def waits(self, run_id: str, step: str) -> Wait | None:
        """Return the wait in a step of a run that no worker is executing."""
        waits = await aresolve(self.service.context.ledger.find(Wait, where(run_id=run_id, step_name=step)))
        run = await self.service.run(WS, run_id)
        assert run.status is not RunStatus.FAILED, run.error
        return waits[0] if waits and run.claim is None else None


class OtherProcess(Process):
    """A process whose service has its own event loop, on another thread."""

    def __init__(self, views: dict[str, Any]) -> None:
        super().__init__(views)
        self._ends = threading.Event()
        self._started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()))

    async def _work(self) -> None:
        async with self.service:
            self._started.set_result(asyncio.get_running_loop())
            await asyncio.to_thread(self._ends.wait, PATIENCE)

    def start(self) -> None:
        self._thread.start()
        self._started.result(PATIENCE)

    def stop(self) -> None:
        self.go_on.set()
        self._ends.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop of this process, and return its result. Call it from another thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._started.result()).result(PATIENCE)


class Takeover:
    """A run that two workers execute, one after the other."""

    def __init__(self, run_storage: RunStorage, start_kind: str, stall_until: str) -> None:
        self.start_kind, self.stall_until = start_kind, stall_until
        self.gates = gates_of_attempts()
        views = run_storage.views()
        self.first = Process({name: GatedStorage(view, self.gates) for name, view in views.items()})
        self.other = OtherProcess(run_storage.views())
        self.saver = views["saver"].for_workspace(WS)
        self.run_id = ""
        self.called_before: list[str] | None = None
        """The nodes that the first worker had called when it stalled."""
        self.taking: Future[bool] | None = None

    async def prepare(self) -> Callable[[], Awaitable[Any]]:
        """Bring the thread to where the run starts or continues; return a function that starts its attempt there."""
        service = self.first.service

        async def start(**options: Any) -> Run:
            self.run_id = f"run_{new_run_id()}"  # known before the attempt begins
            return (await service.start(WS, StartRun(graph="g", thread_id="t", run_id=self.run_id, **options))).run

        match self.start_kind:
            case "a fresh run":
                return lambda: start(input={"kind": "plain"})
            case "a run with rollback":
                before = await start(input={"kind": "asking"})
                await wait_until_idle(service, before)
                return lambda: start(input={"kind": "plain"}, on_busy="rollback")
            case "an answer":
                run = await start(input={"kind": "asking"})
                await wait_until_idle(service, run)
                wait = await wait_until(lambda: self.first.waits(run.id, "opening"))
                return lambda: service.answer(WS, run.id, {wait.id: "opened"})
            case "resuming after a pause":
                run = await start(input={"kind": "plain"}, settings={"interruptBefore": ["opening"]})
                await wait_until_idle(service, run)
                return lambda: service.resume(WS, run.id)
            case _:
                self.first.fails = True
                run = await start(input={"kind": "plain"})
                await wait_until_idle(service, run)
                self.first.fails = False
                return lambda: service.retry(WS, run.id)

    def take_over(self) -> None:
        """Have the other worker take over the run, while the caller stalls."""
        with ThreadPoolExecutor(1) as pool:
            self.taking = pool.submit(self._take_over)
        if self.taking.exception() is None and self.taking.result():
            self.called_before = list(self.first.called)

    def _take_over(self) -> bool:
        """Return whether there was a run to take over: the attempt may already have saved everything."""
        if asyncio.run(self.first.service.run(WS, self.run_id)).claim is None:
            return False
        expiry = [UpdateAll(Worker, [], {"until": LONG_AGO})]
        asyncio.run(_resolve(self.other.service.context.ledger.write(expiry)))
        self.other.start()
        is_in_node = self.other.call(wait_until(self.is_with_other)) == "in a node"
        if is_in_node and self.stall_until == "has paused":
            self.other.call(self.other.service.pause(WS, self.run_id))
        if self.stall_until != "is in a node":
            self.other.go_on.set()
        if is_in_node and self.stall_until == "has paused":
            self.other.call(wait_until(self.is_paused))
        elif self.stall_until == "waits":
            self.other.call(wait_until(lambda: self.other.waits(self.run_id, "closing")))
        elif self.stall_until == "has ended":
            self._close()
        return True

    async def is_with_other(self) -> str | None:
        if self.other.is_held.is_set():
            return "in a node"
        return "waits" if await self.other.waits(self.run_id, "closing") else None

    async def is_paused(self) -> bool:
        return (await self.other.service.run(WS, self.run_id)).status is RunStatus.PAUSED

    def _close(self) -> None:
        service = self.other.service
        if self.other.call(self.is_paused()):
            self.other.call(service.resume(WS, self.run_id))
        wait = self.other.call(wait_until(lambda: self.other.waits(self.run_id, "closing")))
        self.other.call(service.answer(WS, self.run_id, {wait.id: "closed"}))
        self.other.call(service.wait(WS, self.run_id, PATIENCE))

    async def end(self) -> Run:
        """Let the run end with the other worker."""
        self.other.go_on.set()
        if self.stall_until != "has ended":
            await asyncio.to_thread(self._close)
        return await self.first.service.run(WS, self.run_id)

    async def first_is_done(self) -> bool:
        """Return whether the first worker has nothing left to do, whether or not it has stalled."""
        assert self.first.service.worker is not None
        has_stalled = self.taking is not None and self.taking.done()
        is_done = has_stalled or await self.first.waits(self.run_id, "closing") is not None
        return is_done and self.first.service.worker.active_runs == 0


async def _resolve(answer: Any) -> Any:
    return await aresolve(answer)


START_KINDS = ["a fresh run", "a run with rollback", "an answer", "resuming after a pause", "a retry"]


@pytest.mark.parametrize("stall_until", ["is in a node", "has paused", "waits", "has ended"])
@pytest.mark.parametrize("start_kind", START_KINDS)
@pytest.mark.parametrize("storage", ["memory", pytest.param("sqlite", marks=pytest.mark.full)])
@pytest.mark.sampled(3)
async def test_a_worker_that_stalls_until_its_run_is_taken_over_changes_nothing(
    storage: str, start_kind: str, stall_until: str, tmp_path: Path
) -> None:
    at = 0
    while True:
        at += 1
        run_storage = RunStorage(tmp_path / f"{at}.db" if storage == "sqlite" else None)
        case = Takeover(run_storage, start_kind, stall_until)
        case.first.go_on.set()
        async with case.first.service:
            start_run = await case.prepare()
            case.gates.arm(at, case.take_over)
            await start_run()
            await wait_until(case.first_is_done)
            if case.taking is None or not case.taking.result():  # the attempt made fewer calls
                break
            try:
                assert case.first.called == case.called_before, at
                done = await case.end()
                assert (done.status, done.error) == (RunStatus.COMPLETED, None), at
                assert done.output == {"kind": done.output["kind"], "log": ["opened", "held", "closed"]}, at
                assert await aresolve(case.saver.lease("t")) is None, at
            finally:
                case.other.stop()
        run_storage.close()
    assert at > 4
