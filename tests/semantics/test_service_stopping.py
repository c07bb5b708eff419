"""Timeouts of runs, stopping services, breakpoints; and the cost of waiting runs."""

from __future__ import annotations

import asyncio
import gc
import operator
import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, Places, events_of, run_to_rest, serving, types_of, until

from statewright import END, START, RetryPolicy, Runtime, StateGraph, interrupt, sleep
from statewright.async_futures import aresolve
from statewright.runs import ENDED, RunStatus, StepStatus, Worker
from statewright.service import RunFilter, ServiceSettings, StartRun
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(look_every=0.02, drain=0.2)
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


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def naps(state: State) -> State:
    sleep(HOUR)
    return {"log": ["slept"]}


def ends(state: State) -> State:
    return {"log": ["end"]}


class Held:
    """A node that stops until it is let go, and tells when it has begun."""

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

    def let_go_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.05, self.go.set)


async def reached(service: Any, run: Any, *status: RunStatus, seconds: float = PATIENCE) -> Any:
    """The run once it stands there, and nobody has it in hand."""
    async with asyncio.timeout(seconds):
        while True:
            found = await service.run(WS, run.id)
            if found.status in status and found.claim is None:
                return found
            await asyncio.sleep(0.005)


# -- deadlines


async def test_a_run_that_works_too_long_has_failed(place: Places) -> None:
    clock, held = FakeClock(), Held()
    async with serving(place, graph_of("slow", held, ends), clock=clock, settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="slow", timeout=60))).run
        await held.has_begun()
        clock.advance(timedelta(seconds=61))
        run = await reached(service, run, *ENDED)
        held.go.set()
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.FAILED]
        assert (await types_of(service, run))[-1] == "WORKFLOW_FAILED"
        await service.retry(WS, run.id)  # somebody gives it more time: it has no deadline any more
        assert (await reached(service, run, *ENDED)).output == {"log": ["held", "end"]}


async def test_a_run_that_waits_too_long_has_failed(place: Places) -> None:
    clock = FakeClock()
    async with serving(place, graph_of("naps", naps), clock=clock, settings=QUICK) as service:
        run = await run_to_rest(service, "naps", timeout=60)
        assert run.due_at == clock.now() + timedelta(seconds=60)
        clock.advance(timedelta(seconds=60))
        service.wake_background_tasks()
        run = await reached(service, run, *ENDED)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")
        assert (await service.waits(WS)).total == 0
        assert "TIMER_FIRED" not in await types_of(service, run)


async def test_a_run_that_was_out_of_time_while_it_waited_continues_waiting_when_it_is_retried(place: Places) -> None:
    clock = FakeClock()
    async with serving(place, graph_of("naps", naps), clock=clock, settings=QUICK) as service:
        run = await run_to_rest(service, "naps", timeout=60)
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


async def test_a_paused_run_has_failed_when_it_continues_after_its_time(place: Places) -> None:
    clock, held = FakeClock(), Held()
    async with serving(place, graph_of("slow", held, ends), clock=clock, settings=QUICK) as service:
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


async def test_a_run_whose_turn_does_not_come_in_time_has_failed(place: Places) -> None:
    clock = FakeClock()
    async with serving(place, graph_of("asks", asks), clock=clock, settings=QUICK) as service:
        await run_to_rest(service, "asks", thread_id="t")
        wanted = StartRun(graph="asks", thread_id="t", on_busy="enqueue", timeout=60)
        run = (await service.start(WS, wanted)).run
        clock.advance(HOUR)
        service.wake_background_tasks()
        run = await reached(service, run, *ENDED, seconds=0.5)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


# -- a service that stops


async def test_running_steps_finish_and_the_next_service_does_the_rest(place: Places) -> None:
    held = Held()
    graph = graph_of("slow", held, ends)
    async with serving(place, graph, settings=ServiceSettings(look_every=0.02, drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="slow"))).run
        await held.has_begun()
        held.let_go_soon()
    async with serving(place, graph, settings=QUICK) as service:
        run = await reached(service, run, *ENDED)
        assert (run.output, held.calls) == ({"log": ["held", "end"]}, 1)
        types = await types_of(service, run)
        assert (types.count("STEP_STARTED"), types.count("STEP_COMPLETED")) == (2, 2)
        assert "WORKFLOW_PAUSED" not in types


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_steps_that_do_not_end_are_repeated_by_the_next_service(place: Places, kind: str) -> None:
    begun, go, calls, over = threading.Event(), threading.Event(), list[int](), list[int]()

    def stuck(state: State) -> State:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            go.wait(600)
            over.append(1)
        return {"log": ["stuck"]}

    async def stuck_too(state: State) -> State:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            await asyncio.sleep(600)
            over.append(1)
        return {"log": ["stuck"]}

    graph = graph_of("slow", stuck if kind == "sync" else stuck_too, ends)
    async with serving(place, graph, settings=ServiceSettings(drain=0.05)) as service:
        run = (await service.start(WS, StartRun(graph="slow"))).run
        assert await asyncio.to_thread(begun.wait, PATIENCE)
    assert over == []  # it was not waited for
    async with serving(place, graph, settings=QUICK) as service:
        run = await reached(service, run, *ENDED)
        go.set()
        assert (run.output, len(calls)) == ({"log": ["stuck", "end"]}, 2)
        assert await aresolve(service.context.ledger.count(Worker)) == 1


async def test_a_run_that_comes_to_wait_while_its_service_stops_waits_in_the_next(place: Places) -> None:
    held = Held()

    def holds_and_asks(state: State) -> State:
        held(state)
        return {"log": [interrupt("go on?")]}

    graph = graph_of("asks", holds_and_asks)
    async with serving(place, graph, settings=ServiceSettings(drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="asks"))).run
        await held.has_begun()
        held.let_go_soon()
    async with serving(place, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.WAITING)
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert (await reached(service, run, *ENDED)).output == {"log": ["yes"]}
        assert (await types_of(service, run)).count("STEP_WAITING") == 1


async def test_runs_that_were_accepted_while_a_service_stopped_are_done_by_the_next(place: Places) -> None:
    graph, accepted = graph_of("quick", ends), list[Any]()
    for _ in range(4):
        async with serving(place, graph, settings=ServiceSettings(capacity=3, drain=1)) as service:
            accepted += await asyncio.gather(*(service.start(WS, StartRun(graph="quick")) for _ in range(10)))
            stopping = asyncio.create_task(service.stop())
            for _ in range(10):
                accepted.append(await service.start(WS, StartRun(graph="quick")))
                await asyncio.sleep(0)
            await stopping
    async with serving(place, graph, settings=QUICK) as service:
        for one in accepted:
            run = await reached(service, one.run, *ENDED)
            assert (run.status, await types_of(service, run)) == (
                RunStatus.COMPLETED,
                ["WORKFLOW_STARTED", "STEP_STARTED", "STEP_COMPLETED", "WORKFLOW_COMPLETED"],
            )


# -- several reasons to stop, and what the node does meanwhile


class Stopped(Held):
    """A node at work when its run is stopped; then it ends, fails for good, asks, or is cancelled."""

    def __init__(self, does: str) -> None:
        super().__init__()
        self.does = does

    def __call__(self, state: State) -> State:
        super().__call__(state)
        if self.does == "fails":
            raise ValueError("card declined")
        return {"log": [interrupt("go on?")]} if self.does == "asks" else {"log": ["held"]}


@pytest.mark.parametrize("reasons", ["pause", "stop", "pause, then stop", "stop, then pause"])
@pytest.mark.parametrize("does", ["ends", "fails", "asks", "goes on for long"])
async def test_a_run_is_stopped_for_one_reason_or_two(place: Places, reasons: str, does: str) -> None:
    held = Stopped(does)
    graph = graph_of("g", held, ends)
    drain = 0.05 if does == "goes on for long" else PATIENCE
    async with serving(place, graph, settings=ServiceSettings(drain=drain)) as service:
        run = (await service.start(WS, StartRun(graph="g"))).run
        await held.has_begun()
        stopping = asyncio.create_task(service.stop()) if reasons.startswith("stop") else None
        if "pause" in reasons:
            await asyncio.sleep(0)
            await service.pause(WS, run.id)
        if reasons.endswith("stop") and stopping is None:
            stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        if does != "goes on for long":
            held.let_go_soon()
        elif stopping is None:
            stopping = asyncio.create_task(service.stop())
        if stopping is not None:
            await stopping
        else:
            await reached(service, run, RunStatus.PAUSED, RunStatus.WAITING, *ENDED)
    held.go.set()
    calls = held.calls
    async with serving(place, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.PAUSED, RunStatus.WAITING, *ENDED)
        if does == "fails":
            assert (run.status, held.calls) == (RunStatus.FAILED, calls)
            assert "card declined" in run.error["message"]
            return
        if "pause" in reasons:
            assert run.status is RunStatus.PAUSED
            await service.resume(WS, run.id)
            run = await reached(service, run, RunStatus.WAITING, *ENDED)
        if does == "asks":
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
async def test_a_run_that_is_out_of_time_has_failed_though_it_is_being_paused(place: Places, order: str) -> None:
    clock, begun = FakeClock(), threading.Event()
    cleans, cleaned = threading.Event(), threading.Event()

    async def cleans_up(state: State) -> State:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleans.set()
            while not cleaned.is_set():
                await asyncio.sleep(0.005)
        raise AssertionError

    async with serving(place, graph_of("g", cleans_up), clock=clock, settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="g", timeout=60))).run
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        if order == "pause before":
            await service.pause(WS, run.id)
        clock.advance(timedelta(seconds=61))
        assert await asyncio.to_thread(cleans.wait, PATIENCE)
        if order == "pause after":
            await service.pause(WS, run.id)
        cleaned.set()
        run = await reached(service, run, *ENDED)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


# -- a worker whose run belongs to another one by now


@pytest.mark.parametrize("is_retried", [False, True], ids=["once", "with retries"])
async def test_a_cancelled_run_does_nothing_more_in_its_subgraphs(
    place: Places, is_retried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, is_cancelled, sees = list[str](), threading.Event(), threading.Event()

    def works(name: str) -> Any:
        def work(state: State, runtime: Runtime[Any]) -> State:
            if name == "second":
                sees.set()
                assert is_cancelled.wait(PATIENCE)
            runtime.step("pay", lambda: effects.append(name))
            return {"log": [name]}

        work.__name__ = name
        return work

    inner = graph_of("inner", works("first"), works("second"), works("third"))
    graph = StateGraph(State, name="g")
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=Exception) if is_retried else None
    graph.add_node("inner", inner.compile(), retry_policy=policy).add_edge(START, "inner")
    async with serving(place, graph, settings=ServiceSettings(look_every=3600)) as service:
        run = (await service.start(WS, StartRun(graph="g"))).run
        assert await asyncio.to_thread(sees.wait, PATIENCE)
        monkeypatch.setattr(service.context, "attempt_at", lambda run_id: None)  # as if another process cancelled it
        await service.cancel(WS, run.id)
        is_cancelled.set()
        await until(lambda: _is_idle(service))
        assert effects in (["first"], ["first", "second"])
        assert (await service.run(WS, run.id)).status is RunStatus.CANCELLED


async def _is_idle(service: Any) -> bool:
    return service.worker.active_runs == 0


async def test_the_thread_of_a_run_that_was_cancelled_elsewhere_is_free_for_the_next(
    place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held()

    def works(state: State) -> State:
        return held(state) if held.calls == 0 else {"log": ["end"]}

    async with serving(place, graph_of("g", works), settings=QUICK) as service:
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


@pytest.mark.parametrize("where", ["interruptBefore", "interruptAfter"])
async def test_a_breakpoint_pauses_the_run_until_it_is_resumed(place: Places, where: str) -> None:
    node = "ends" if where == "interruptBefore" else "first"

    def first(state: State) -> State:
        return {"log": ["first"]}

    async with serving(place, graph_of("two", first, ends), settings=QUICK) as service:
        run = await run_to_rest(service, "two", settings={where: [node]})
        assert (run.status, run.claim, run.due_at) == (RunStatus.PAUSED, None, None)
        assert await service.state(WS, run.id) == {"log": ["first"]}
        await service.resume(WS, run.id)
        run = await reached(service, run, *ENDED)
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["first", "end"]})
        types = await types_of(service, run)
        assert (types.count("WORKFLOW_PAUSED"), types.count("WORKFLOW_RESUMED")) == (1, 1)


async def test_a_step_before_which_a_run_has_stopped_has_not_begun(place: Places) -> None:
    async with serving(place, graph_of("one", ends), settings=QUICK) as service:
        run = await run_to_rest(service, "one", settings={"interruptBefore": ["ends"]})
        assert [step.status for step in await service.steps(WS, run.id)] == [StepStatus.PENDING]
        assert await events_of(service, run, "STEP_STARTED") == []


async def test_a_breakpoint_holds_though_the_service_stops_at_it(place: Places) -> None:
    held = Held()
    graph = graph_of("slow", held, ends)
    async with serving(place, graph, settings=ServiceSettings(drain=5)) as service:
        run = (await service.start(WS, StartRun(graph="slow", settings={"interruptBefore": ["ends"]}))).run
        await held.has_begun()
        held.let_go_soon()
    async with serving(place, graph, settings=QUICK) as service:
        run = await reached(service, run, RunStatus.PAUSED, *ENDED)
        assert run.status is RunStatus.PAUSED


async def test_a_run_that_takes_too_many_steps_has_failed(place: Places) -> None:
    def again(state: State) -> State:
        return {"log": ["again"]}

    graph = StateGraph(State, name="endless")
    graph.add_node("again", again)
    graph.add_edge(START, "again")
    graph.add_conditional_edges("again", lambda state: "again", ["again", END])
    async with serving(place, graph, settings=QUICK) as service:
        run = await run_to_rest(service, "endless", settings={"recursionLimit": 5})
        assert (run.status, "stopped after 5" in run.error["message"]) == (RunStatus.FAILED, True)
        assert len((await service.state(WS, run.id))["log"]) == 5


async def test_an_error_of_the_engine_has_the_code_that_it_has_elsewhere(place: Places) -> None:
    async with serving(place, graph_of("two", ends, asks), settings=QUICK) as service:
        run = await run_to_rest(service, "two", settings={"recursionLimit": 1})
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "SW-graph-recursion-error")


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_whatever_the_durability_the_log_is_whole(place: Places, durability: str) -> None:
    nodes = [type("Node", (), {"__call__": lambda self, state: {"log": [1]}, "__name__": f"n{n}"})() for n in range(9)]
    async with serving(place, graph_of("many", *nodes, asks), settings=QUICK) as service:
        run = await run_to_rest(service, "many", settings={"durability": durability})
        assert run.status is RunStatus.WAITING
        [wait] = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: 2})
        run = await reached(service, run, *ENDED)
        assert run.output == {"log": [1] * 9 + [2]}
        types = await types_of(service, run)
        assert (types.count("STEP_STARTED"), types.count("STEP_COMPLETED")) == (10, 10)


# -- what waiting costs


async def asks_on_the_loop(state: State) -> State:
    return {"log": [interrupt("go on?")]}


async def test_waiting_runs_hold_neither_tasks_nor_threads(tmp_path: Path) -> None:
    place = Places(tmp_path / "runs.db")
    try:
        async with serving(place, graph_of("asks", asks_on_the_loop), settings=ServiceSettings(capacity=50)) as service:

            async def waiting(count: int) -> bool:
                found = await service.runs(WS, RunFilter(status=[RunStatus.WAITING]), page_size=1)
                return found.total == count

            async def more(count: int, total: int) -> tuple[int, int]:
                for start in range(0, count, 100):
                    some = range(start, min(start + 100, count))
                    await asyncio.gather(*(service.start(WS, StartRun(graph="asks")) for _ in some))
                await until(lambda: waiting(total))
                await until(lambda: _idle(service))
                gc.collect()
                tasks = sum(isinstance(one, asyncio.Task) and not one.done() for one in gc.get_objects())
                return tasks, threading.active_count()

            few_tasks, few_threads = await more(200, 200)
            tasks, threads = await more(800, 1000)
            assert tasks == few_tasks
            assert threads < few_threads + 20  # those that read the database are few, and stay
    finally:
        place.close()


async def _idle(service: Any) -> bool:
    return service.worker.active_runs == 0
