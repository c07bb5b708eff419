"""Timeouts of runs, stopping services, breakpoints, and the resources that waiting runs use."""

from __future__ import annotations

import asyncio
import gc
import operator
import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    RunStorage,
    events_of,
    run_until_idle,
    serving,
    types_of,
    wait_until,
)

from statewright import END, START, RetryPolicy, Runtime, StateGraph, interrupt, sleep
from statewright.async_futures import aresolve
from statewright.runs import ENDED, RunStatus, StepStatus, Worker
from statewright.service import RunFilter, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
HOUR = timedelta(hours=1)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def graph_of(name: str, *nodes: Any) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def nap(state: State) -> State:
    sleep(HOUR)
    return {"log": ["slept"]}


def finish(state: State) -> State:
    return {"log": ["end"]}


class BlockingNode:
    """A node that blocks until it is released, and signals when it has begun."""

    __name__ = "held"

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self, state: State) -> State:
        self.calls += 1
        self.begun.set()
        self.go.wait(PATIENCE)
        return {"log": ["held"]}

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, PATIENCE)

    def release_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.05, self.go.set)


async def reached(service: Any, run: Any, *status: RunStatus, seconds: float = PATIENCE) -> Any:
    """Return the run once it has one of these statuses and no claim."""
    async with asyncio.timeout(seconds):
        while True:
            current = await service.run(WS, run.id)
            if current.status in status and current.claim is None:
                return current
            await asyncio.sleep(0.005)


# -- deadlines


async def test_a_run_that_works_past_its_timeout_fails(run_storage: RunStorage) -> None:
    clock, held = FakeClock(), BlockingNode()
    async with serving(run_storage, graph_of("slow", held, finish), clock=clock, settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="slow", timeout=60))).run
        await held.has_begun()
        clock.advance(timedelta(seconds=61))
        run = await reached(service, run, *ENDED)
        held.go.set()
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.FAILED]
        assert (await types_of(service, run))[-1] == "WORKFLOW_FAILED"
        await service.retry(WS, run.id)  # a retried run has no deadline
        assert (await reached(service, run, *ENDED)).output == {"log": ["held", "end"]}


async def test_a_run_that_waits_past_its_timeout_fails(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, graph_of("nap", nap), clock=clock, settings=QUICK) as service:
        run = await run_until_idle(service, "nap", timeout=60)
        assert run.due_at == clock.now() + timedelta(seconds=60)
        clock.advance(timedelta(seconds=60))
        service.wake_background_tasks()
        run = await reached(service, run, *ENDED)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")
        assert (await service.waits(WS)).total == 0
        assert "TIMER_FIRED" not in await types_of(service, run)


async def test_retrying_a_run_that_timed_out_while_waiting_continues_the_wait(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, graph_of("nap", nap), clock=clock, settings=QUICK) as service:
        run = await run_until_idle(service, "nap", timeout=60)
        due = clock.now() + HOUR
        clock.advance(timedelta(seconds=60))
        service.wake_background_tasks()
        await reached(service, run, RunStatus.FAILED)
        await service.retry(WS, run.id)
        run = await reached(service, run, RunStatus.WAITING)
        assert run.due_at == due
        clock.advance(HOUR)
        service.wake_background_tasks()
        assert (await reached(service, run, *ENDED)).output == {"log": ["slept"]}


async def test_a_paused_run_fails_when_it_is_resumed_after_its_timeout(run_storage: RunStorage) -> None:
    clock, held = FakeClock(), BlockingNode()
    async with serving(run_storage, graph_of("slow", held, finish), clock=clock, settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="slow", timeout=60))).run
        await held.has_begun()
        await service.pause(WS, run.id)
        held.go.set()
        await reached(service, run, RunStatus.PAUSED)
        clock.advance(HOUR)
        service.wake_background_tasks()
        await asyncio.sleep(0.05)
        assert (await service.run(WS, run.id)).status is RunStatus.PAUSED
        await service.resume(WS, run.id)
        run = await reached(service, run, *ENDED)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


async def test_a_queued_run_that_does_not_start_before_its_timeout_fails(run_storage: RunStorage) -> None:
    clock = FakeClock()
    async with serving(run_storage, graph_of("ask", ask), clock=clock, settings=QUICK) as service:
        await run_until_idle(service, "ask", thread_id="t")
        request = StartRun(graph="ask", thread_id="t", on_busy="enqueue", timeout=60)
        run = (await service.start(WS, request)).run
        clock.advance(HOUR)
        service.wake_background_tasks()
        run = await reached(service, run, *ENDED, seconds=0.5)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


# -- stopping a service


async def test_a_stopping_service_finishes_running_steps_and_the_next_one_continues(run_storage: RunStorage) -> None:
    held = BlockingNode()
    graph = graph_of("slow", held, finish)
    async with serving(run_storage, graph, settings=ServiceSettings(poll_interval=0.02, drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="slow"))).run
        await held.has_begun()
        held.release_soon()
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await reached(service, run, *ENDED)
        assert (run.output, held.calls) == ({"log": ["held", "end"]}, 1)
        types = await types_of(service, run)
        assert (types.count("STEP_STARTED"), types.count("STEP_COMPLETED")) == (2, 2)
        assert "WORKFLOW_PAUSED" not in types


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_steps_interrupted_by_a_stop_are_repeated_by_the_next_service(run_storage: RunStorage, kind: str) -> None:
    begun, go, calls, completed = threading.Event(), threading.Event(), list[int](), list[int]()

    def stuck(state: State) -> State:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            go.wait(600)
            completed.append(1)
        return {"log": ["stuck"]}

    async def stuck_coroutine(state: State) -> State:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            await asyncio.sleep(600)
            completed.append(1)
        return {"log": ["stuck"]}

    graph = graph_of("slow", stuck if kind == "sync" else stuck_coroutine, finish)
    async with serving(run_storage, graph, settings=ServiceSettings(drain=0.05)) as service:
        run = (await service.start(WS, StartRun(graph="slow"))).run
        assert await asyncio.to_thread(begun.wait, PATIENCE)
    assert completed == []  # the service did not wait for it
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await reached(service, run, *ENDED)
        go.set()
        assert (run.output, len(calls)) == ({"log": ["stuck", "end"]}, 2)
        assert await aresolve(service.context.ledger.count(Worker)) == 1


async def test_a_run_that_begins_to_wait_during_a_stop_waits_in_the_next_service(run_storage: RunStorage) -> None:
    held = BlockingNode()

    def block_and_ask(state: State) -> State:
        held(state)
        return {"log": [interrupt("go on?")]}

    graph = graph_of("ask", block_and_ask)
    async with serving(run_storage, graph, settings=ServiceSettings(drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="ask"))).run
        await held.has_begun()
        held.release_soon()
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.WAITING)
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await reached(service, run, *ENDED)).output == {"log": ["yes"]}
        assert (await types_of(service, run)).count("STEP_WAITING") == 1


async def test_runs_accepted_during_a_stop_are_executed_by_the_next_service(run_storage: RunStorage) -> None:
    graph, accepted = graph_of("quick", finish), list[Any]()
    for _ in range(4):
        async with serving(run_storage, graph, settings=ServiceSettings(capacity=3, drain=1)) as service:
            accepted += await asyncio.gather(*(service.start(WS, StartRun(graph="quick")) for _ in range(10)))
            stopping = asyncio.create_task(service.stop())
            for _ in range(10):
                accepted.append(await service.start(WS, StartRun(graph="quick")))
                await asyncio.sleep(0)
            await stopping
    async with serving(run_storage, graph, settings=QUICK) as service:
        for started in accepted:
            run = await reached(service, started.run, *ENDED)
            assert (run.status, await types_of(service, run)) == (
                RunStatus.COMPLETED,
                ["WORKFLOW_STARTED", "STEP_STARTED", "STEP_COMPLETED", "WORKFLOW_COMPLETED"],
            )


# -- combinations of pausing and stopping, by what the node does meanwhile


class InterruptedNode(BlockingNode):
    """A node that is running when its run is stopped; afterwards it completes, fails, interrupts, or is cancelled."""

    def __init__(self, behaviour: str) -> None:
        super().__init__()
        self.behaviour = behaviour

    def __call__(self, state: State) -> State:
        super().__call__(state)
        if self.behaviour == "fails":
            raise ValueError("card declined")
        return {"log": [interrupt("go on?")]} if self.behaviour == "interrupts" else {"log": ["held"]}


@pytest.mark.parametrize("reasons", ["pause", "stop", "pause, then stop", "stop, then pause"])
@pytest.mark.parametrize("behaviour", ["ends", "fails", "interrupts", "keeps running"])
@pytest.mark.sampled(5)
async def test_pausing_a_run_and_stopping_its_service_can_be_combined(
    run_storage: RunStorage, reasons: str, behaviour: str
) -> None:
    held = InterruptedNode(behaviour)
    graph = graph_of("g", held, finish)
    drain = 0.05 if behaviour == "keeps running" else PATIENCE
    async with serving(run_storage, graph, settings=ServiceSettings(drain=drain)) as service:
        run = (await service.start(WS, StartRun(graph="g"))).run
        await held.has_begun()
        stopping = asyncio.create_task(service.stop()) if reasons.startswith("stop") else None
        if "pause" in reasons:
            await asyncio.sleep(0)
            await service.pause(WS, run.id)
        if reasons.endswith("stop") and stopping is None:
            stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        if behaviour != "keeps running":
            held.release_soon()
        elif stopping is None:
            stopping = asyncio.create_task(service.stop())
        if stopping is not None:
            await stopping
        else:
            await reached(service, run, RunStatus.PAUSED, RunStatus.WAITING, *ENDED)
    held.go.set()
    calls = held.calls
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.PAUSED, RunStatus.WAITING, *ENDED)
        if behaviour == "fails":
            assert (run.status, held.calls) == (RunStatus.FAILED, calls)
            assert "card declined" in run.error["message"]
            return
        if "pause" in reasons:
            assert run.status is RunStatus.PAUSED
            await service.resume(WS, run.id)
            run = await reached(service, run, RunStatus.WAITING, *ENDED)
        if behaviour == "interrupts":
            assert run.status is RunStatus.WAITING
            [wait] = (await service.waits(WS)).items
            await service.answer(WS, run.id, {wait.id: "held"})
            run = await reached(service, run, *ENDED)
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["held", "end"]})
        steps = await service.steps(WS, run.id)
        assert {step.status for step in steps} == {StepStatus.COMPLETED}
        types = await types_of(service, run)
        assert types.count("STEP_STARTED") == types.count("STEP_COMPLETED") == 2
        assert types.count("WORKFLOW_COMPLETED") == 1


@pytest.mark.parametrize("order", ["pause before", "pause after"])
async def test_a_run_that_times_out_while_being_paused_fails(run_storage: RunStorage, order: str) -> None:
    clock, begun = FakeClock(), threading.Event()
    is_cleaning_up, may_end = threading.Event(), threading.Event()

    async def clean_up(state: State) -> State:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            is_cleaning_up.set()
            while not may_end.is_set():
                await asyncio.sleep(0.005)
        raise AssertionError

    async with serving(run_storage, graph_of("g", clean_up), clock=clock, settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="g", timeout=60))).run
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        if order == "pause before":
            await service.pause(WS, run.id)
        clock.advance(timedelta(seconds=61))
        assert await asyncio.to_thread(is_cleaning_up.wait, PATIENCE)
        if order == "pause after":
            await service.pause(WS, run.id)
        may_end.set()
        run = await reached(service, run, *ENDED)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


# -- runs that another process has cancelled


@pytest.mark.parametrize("is_retried", [False, True], ids=["once", "with retries"])
async def test_a_cancelled_run_executes_no_more_steps_in_its_subgraphs(
    run_storage: RunStorage, is_retried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, is_cancelled, is_in_second = list[str](), threading.Event(), threading.Event()

    def worker(name: str) -> Any:
        def work(state: State, runtime: Runtime[Any]) -> State:
            if name == "second":
                is_in_second.set()
                assert is_cancelled.wait(PATIENCE)
            runtime.step("pay", lambda: effects.append(name))
            return {"log": [name]}

        work.__name__ = name
        return work

    inner = graph_of("inner", worker("first"), worker("second"), worker("third"))
    graph = StateGraph(State, name="g")
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=Exception) if is_retried else None
    graph.add_node("inner", inner.compile(), retry_policy=policy).add_edge(START, "inner")
    async with serving(run_storage, graph, settings=ServiceSettings(poll_interval=3600)) as service:
        run = (await service.start(WS, StartRun(graph="g"))).run
        assert await asyncio.to_thread(is_in_second.wait, PATIENCE)
        monkeypatch.setattr(service.context, "attempt_at", lambda run_id: None)  # as if another process cancelled it
        await service.cancel(WS, run.id)
        is_cancelled.set()
        await wait_until(lambda: _is_idle(service))
        assert effects in (["first"], ["first", "second"])
        assert (await service.run(WS, run.id)).status is RunStatus.CANCELLED


async def _is_idle(service: Any) -> bool:
    return service.worker.active_runs == 0


async def test_the_thread_of_a_run_cancelled_by_another_process_is_free_for_the_next_run(
    run_storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = BlockingNode()

    def work(state: State) -> State:
        return held(state) if held.calls == 0 else {"log": ["end"]}

    async with serving(run_storage, graph_of("g", work), settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="g", thread_id="t"))).run
        await held.has_begun()
        with monkeypatch.context() as patch:
            patch.setattr(service.context, "attempt_at", lambda run_id: None)  # as if another process cancelled it
            await service.cancel(WS, run.id)
        following = (await service.start(WS, StartRun(graph="g", thread_id="t"))).run
        try:
            done = await reached(service, following, *ENDED)
        finally:
            held.go.set()
        assert (done.status, done.output) == (RunStatus.COMPLETED, {"log": ["end"]})


# -- breakpoints and limits


@pytest.mark.parametrize("setting", ["interruptBefore", "interruptAfter"])
async def test_a_breakpoint_pauses_the_run_until_it_is_resumed(run_storage: RunStorage, setting: str) -> None:
    node = "finish" if setting == "interruptBefore" else "first"

    def first(state: State) -> State:
        return {"log": ["first"]}

    async with serving(run_storage, graph_of("two", first, finish), settings=QUICK) as service:
        run = await run_until_idle(service, "two", settings={setting: [node]})
        assert (run.status, run.claim, run.due_at) == (RunStatus.PAUSED, None, None)
        assert await service.state(WS, run.id) == {"log": ["first"]}
        await service.resume(WS, run.id)
        run = await reached(service, run, *ENDED)
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["first", "end"]})
        types = await types_of(service, run)
        assert (types.count("WORKFLOW_PAUSED"), types.count("WORKFLOW_RESUMED")) == (1, 1)


async def test_a_breakpoint_before_a_step_leaves_it_pending(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("one", finish), settings=QUICK) as service:
        run = await run_until_idle(service, "one", settings={"interruptBefore": ["finish"]})
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.PENDING]
        assert await events_of(service, run, "STEP_STARTED") == []


async def test_a_breakpoint_still_holds_if_the_service_stops_at_it(run_storage: RunStorage) -> None:
    held = BlockingNode()
    graph = graph_of("slow", held, finish)
    async with serving(run_storage, graph, settings=ServiceSettings(drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="slow", settings={"interruptBefore": ["finish"]}))).run
        await held.has_begun()
        held.release_soon()
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.PAUSED, *ENDED)
        assert run.status is RunStatus.PAUSED


async def test_a_run_that_exceeds_its_recursion_limit_fails(run_storage: RunStorage) -> None:
    def again(state: State) -> State:
        return {"log": ["again"]}

    graph = StateGraph(State, name="endless")
    graph.add_node("again", again)
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda state: "again", ["again", END])
    async with serving(run_storage, graph, settings=QUICK) as service:
        run = await run_until_idle(service, "endless", settings={"recursionLimit": 5})
        assert (run.status, "stopped after 5" in run.error["message"]) == (RunStatus.FAILED, True)
        assert len((await service.state(WS, run.id))["log"]) == 5


async def test_an_engine_error_keeps_its_error_code_in_the_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, graph_of("two", finish, ask), settings=QUICK) as service:
        run = await run_until_idle(service, "two", settings={"recursionLimit": 1})
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "SW-graph-recursion-error")


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_the_event_log_is_complete_in_every_durability(run_storage: RunStorage, durability: str) -> None:
    nodes = [type("Node", (), {"__call__": lambda self, state: {"log": [1]}, "__name__": f"n{n}"})() for n in range(9)]
    async with serving(run_storage, graph_of("many", *nodes, ask), settings=QUICK) as service:
        run = await run_until_idle(service, "many", settings={"durability": durability})
        assert run.status is RunStatus.WAITING
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: 2})
        run = await reached(service, run, *ENDED)
        assert run.output == {"log": [1] * 9 + [2]}
        types = await types_of(service, run)
        assert (types.count("STEP_STARTED"), types.count("STEP_COMPLETED")) == (10, 10)


# -- resources of waiting runs


async def ask_asynchronously(state: State) -> State:
    return {"log": [interrupt("go on?")]}


async def test_waiting_runs_hold_neither_asyncio_tasks_nor_threads(tmp_path: Path) -> None:
    run_storage = RunStorage(tmp_path / "runs.db")
    try:
        async with serving(
            run_storage, graph_of("ask", ask_asynchronously), settings=ServiceSettings(capacity=50)
        ) as service:

            async def are_waiting(count: int) -> bool:
                page = await service.runs(WS, RunFilter(status=[RunStatus.WAITING]), page_size=1)
                return page.total == count

            async def start_more(count: int, total: int) -> tuple[int, int]:
                """Start runs, and return the numbers of tasks and threads once all of them wait."""
                for start in range(0, count, 100):
                    batch = range(start, min(start + 100, count))
                    await asyncio.gather(*(service.start(WS, StartRun(graph="ask")) for _ in batch))
                await wait_until(lambda: are_waiting(total))
                await wait_until(lambda: _is_idle(service))
                gc.collect()
                tasks = sum(isinstance(item, asyncio.Task) and not item.done() for item in gc.get_objects())
                return tasks, threading.active_count()

            few_tasks, few_threads = await start_more(200, 200)
            tasks, threads = await start_more(800, 1000)
            assert tasks == few_tasks
            assert threads < few_threads + 20  # a few threads that read the database remain
    finally:
        run_storage.close()
