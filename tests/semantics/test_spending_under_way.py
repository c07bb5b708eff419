"""Runs whose workspace reaches its spending limit: they stop between supersteps, and continue the next day."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.semantics.on_services import WS, RunStorage, run_until_idle, serving, types_of, wait_until_idle
from tests.semantics.on_spending import (
    NOON,
    TOMORROW,
    State,
    call,
    calling_node,
    chain,
    fixed_usage_model,
    graph_of_calls,
    logging_node,
    spending_of,
)
from tests.semantics.test_service_crashes import LONG_AGO, QUICK, Life, MortalLedger, MortalSaver

from statewright import END, START, Runtime, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.clock import SystemClock
from statewright.errors import StorageUnavailable
from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.runs import DailySpending, Run, RunStatus, UpdateAll, Worker
from statewright.service import Catalog, Service, SpendingLimits, StartRun
from statewright.testing import FakeClock, TestService


@pytest.fixture(params=["memory", "sqlite"])
def service_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"start": NOON, "path": tmp_path / "runs.db" if request.param == "sqlite" else None}


def test_a_run_stops_before_the_next_superstep_and_continues_the_next_day(service_options: dict[str, Any]) -> None:
    model = fixed_usage_model()
    limits = SpendingLimits(tokens_per_day=20)
    with TestService({"think": graph_of_calls(model, 3)}, **service_options, spending_limits=limits) as service:
        run = service.start("think")
        assert len(model.requests) == 2
        assert (run.status, run.due_at, run.claim) == (RunStatus.PAUSED, TOMORROW, None)
        assert run.error["code"] == "SW-spending-limit-reached"
        assert run.error["details"]["endsAt"] == "2026-03-02T00:00:00Z"
        [paused] = [event for event in service.events(run) if event.type == "WORKFLOW_PAUSED"]
        assert paused.payload == {
            "reason": "spending_limit",
            "limit": "tokens_per_day",
            "until": "2026-03-02T00:00:00Z",
        }
        assert [str(step.status) for step in service.steps(run)] == ["completed", "completed", "pending"]
        service.advance(timedelta(hours=11))
        assert len(model.requests) == 2
        service.advance(timedelta(hours=1))
        ended = service.run(run)
        assert (ended.status, ended.output, ended.error) == (RunStatus.COMPLETED, {"log": ["n0", "n1", "n2"]}, None)
        assert len(model.requests) == 3, "nothing is repeated"
        assert [event.type for event in service.events(run)].count("WORKFLOW_RESUMED") == 1
        days = [spending_of(service), spending_of(service, day=TOMORROW)]
        assert [day.requests for day in days if day] == [2, 1]


class RendezvousModel:
    """A model that answers once two calls have arrived."""

    name = "rendezvous"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        while self.calls < 2:
            await asyncio.sleep(0.001)
        return ModelResponse(Message("Yes.", role="assistant"), Usage(6, 4, 0.25), "rendezvous")


def test_concurrent_runs_stop_together(service_options: dict[str, Any]) -> None:
    model = RendezvousModel()
    limits = SpendingLimits(requests_per_day=4)
    with TestService({"think": graph_of_calls(model, 10)}, **service_options, spending_limits=limits) as service:
        inner = service._parts.service

        async def start_both() -> list[Run]:
            requests = [StartRun(graph="think"), StartRun(graph="think")]
            return [(await inner.start(WS, request)).run for request in requests]

        both = call(service, start_both())
        service.settle()
        runs = [service.run(run) for run in both]
        assert [run.status for run in runs] == [RunStatus.PAUSED] * 2
        calls = model.calls
        assert 4 <= calls <= 5, "only supersteps in progress may exceed the limit"
        assert (spending_of(service) or DailySpending.of(WS, NOON)).requests == calls
        for _ in range(10):
            service.advance(timedelta(days=1))
        runs = [service.run(run) for run in runs]
        assert [run.status for run in runs] == [RunStatus.COMPLETED] * 2
        assert model.calls == 20, "nothing is repeated or omitted"


def test_a_run_without_model_calls_stops_when_others_have_reached_the_limit() -> None:
    model = fixed_usage_model()
    asking = chain("ask", first=lambda state: {"log": [interrupt("go on?")]}, second=logging_node("second"))
    graphs = {"think": graph_of_calls(model, 1), "ask": asking}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        waiting = service.start("ask")
        service.start("think")
        run = service.answer(waiting, "yes")
        assert (run.status, run.due_at) == (RunStatus.WAITING, TOMORROW), "the run keeps its answer"
        assert run.error["code"] == "SW-spending-limit-reached"
        service.advance(timedelta(hours=12))
        run = service.run(waiting)
        assert (run.status, run.error, run.output) == (RunStatus.COMPLETED, None, {"log": ["yes", "second"]})


@pytest.mark.anyio
async def test_a_run_in_another_process_stops_without_having_spent_anything(tmp_path: Path) -> None:
    begun, release, clock = asyncio.Event(), asyncio.Event(), FakeClock(NOON)
    loop, model = asyncio.get_running_loop(), fixed_usage_model()

    async def hold(state: State) -> State:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(release.wait(), loop))
        return {"log": ["held"]}

    graph = chain("hold", hold=hold, last=calling_node(model, "last"))
    options: dict[str, Any] = {"clock": clock, "spending_limits": SpendingLimits(requests_per_day=1)}
    run_storage = RunStorage(tmp_path / "runs.db")
    try:
        async with (
            serving(run_storage, graph, **options) as first,
            serving(run_storage, graph_of_calls(model, 1), **options) as second,
        ):
            held = (await first.start(WS, StartRun(graph="hold"))).run
            await begun.wait()
            assert (await run_until_idle(second, "think")).status is RunStatus.COMPLETED
            release.set()
            run = await wait_until_idle(first, held)
            assert (run.status, run.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 1)
    finally:
        run_storage.close()


def question_next_to_subgraph(model: ScriptedModel, calls: int) -> StateGraph:
    """Return a graph with a question in parallel to a subgraph that calls a model this many times."""
    graph = StateGraph(State, name="outer")
    graph.add_node("ask", lambda state: {"log": [interrupt("go on?")]})
    graph.add_node("inner", graph_of_calls(model, calls, "inner").compile())
    for name in ("ask", "inner"):
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph


def test_a_run_stopped_in_a_subgraph_next_to_a_question_continues_with_both(service_options: dict[str, Any]) -> None:
    model, limits = fixed_usage_model(), SpendingLimits(requests_per_day=2)
    with TestService(
        {"outer": question_next_to_subgraph(model, 3)}, **service_options, spending_limits=limits
    ) as service:
        run = service.start("outer")
        assert (run.status, run.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 2)
        assert list(service.waits(run)) == [], "the question is open once the parallel work is done"
        service.advance(timedelta(hours=12))
        run = service.run(run)
        assert (run.status, run.error, len(model.requests)) == (RunStatus.WAITING, None, 3)
        run = service.answer(run, "yes")
        assert (run.status, sorted(run.output["log"])) == (RunStatus.COMPLETED, ["n0", "n1", "n2", "yes"])
        assert len(model.requests) == 3


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_stops_at_the_limit_in_every_durability(tmp_path: Path, durability: str) -> None:
    model, limits = fixed_usage_model(), SpendingLimits(requests_per_day=2)
    graphs = {"think": graph_of_calls(model, 20)}
    with TestService(graphs, start=NOON, path=tmp_path / "runs.db", spending_limits=limits) as service:
        run = service.start("think", settings={"durability": durability})
        for _ in range(20):
            service.advance(timedelta(days=1))
        run = service.run(run)
        assert (run.status, len(model.requests), len(run.output["log"])) == (RunStatus.COMPLETED, 20, 20)
        days = call(service, aresolve(service._parts.service.context.ledger.find(DailySpending)))
        assert sum(day.requests for day in days) == 20
        assert durability == "async" or [day.requests for day in days if day.requests] == [2] * 10


def test_a_parent_and_its_child_run_start_the_next_day() -> None:
    model = fixed_usage_model()

    def wait(state: State, runtime: Runtime[Any]) -> State:
        return {"log": runtime.start_run("child", {})["log"]}

    graphs = {
        "parent": chain("parent", wait=wait),
        "child": graph_of_calls(model, 1, "child"),
        "think": graph_of_calls(model, 2),
    }
    limits = SpendingLimits(requests_per_day=2)
    with TestService(graphs, start=NOON, spending_limits=limits) as service:
        parent = service.start("parent", after=NOON + timedelta(hours=1))
        service.start("think")
        service.advance(timedelta(hours=2))
        run = service.run(parent)
        assert (run.status, run.due_at) == (RunStatus.PENDING, TOMORROW)
        service.advance(timedelta(hours=10))
        run = service.run(parent)
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"log": ["n0"]})


def test_a_run_stopped_for_the_day_can_be_cancelled_paused_and_resumed() -> None:
    model = fixed_usage_model()
    limits = SpendingLimits(requests_per_day=1)
    with TestService({"think": graph_of_calls(model, 2)}, start=NOON, spending_limits=limits) as service:
        run = service.start("think")
        assert run.status is RunStatus.PAUSED
        resumed = service.resume(run)
        assert (resumed.status, resumed.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 1)
        paused = service.pause(run)
        assert (paused.status, paused.due_at) == (RunStatus.PAUSED, None)
        service.advance(timedelta(days=2))
        assert service.run(run).status is RunStatus.PAUSED, "the pause has no end"
        assert service.resume(run).status is RunStatus.COMPLETED
        service.advance(timedelta(days=1))
        other = service.start("think")
        assert other.status is RunStatus.PAUSED
        assert service.cancel(other).status is RunStatus.CANCELLED


def test_a_run_with_a_deadline_before_the_next_day_fails_at_the_deadline() -> None:
    limits = SpendingLimits(requests_per_day=1)
    with TestService({"think": graph_of_calls(fixed_usage_model(), 2)}, start=NOON, spending_limits=limits) as service:
        run = service.start("think", timeout=3600)
        assert (run.status, run.due_at) == (RunStatus.PAUSED, NOON + timedelta(hours=1))
        service.advance(timedelta(hours=2))
        run = service.run(run)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


def test_a_higher_limit_lets_a_stopped_run_continue_at_once(tmp_path: Path) -> None:
    model, path = fixed_usage_model(), tmp_path / "runs.db"
    graphs = {"think": graph_of_calls(model, 2)}
    with TestService(graphs, start=NOON, path=path, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        run = service.start("think")
        assert run.status is RunStatus.PAUSED
    with TestService(graphs, start=NOON, path=path, spending_limits=SpendingLimits(requests_per_day=9)) as service:
        again = service.resume(run)
        assert (again.status, len(model.requests)) == (RunStatus.COMPLETED, 2)


def test_a_limit_on_cost_warns_where_the_price_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    graphs, limits = {"think": graph_of_calls(fixed_usage_model(cost=0.0), 3)}, SpendingLimits(cost_per_day=1)
    with (
        caplog.at_level(logging.WARNING, "statewright"),
        TestService(graphs, start=NOON, spending_limits=limits) as service,
    ):
        assert service.start("think").status is RunStatus.COMPLETED
    assert caplog.text.count("The spending limit of 1 dollars a day does not count 10 tokens") == 1


class ClockFrom(SystemClock):
    """A clock that starts at a given instant, and runs like that of the system."""

    def __init__(self, start: datetime) -> None:
        self._start, self._begun = start, time.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=time.monotonic() - self._begun)


def new_service(views: dict[str, Any], graph: StateGraph, start: datetime) -> Service:
    """Return a service with a daily limit and a clock that starts at a given instant."""
    catalog = Catalog()
    catalog.serve("think", graph)
    limits = SpendingLimits(requests_per_day=2)
    return Service(catalog, **views, settings=QUICK, clock=ClockFrom(start), spending_limits=limits)


async def serve_until_death(run_storage: RunStorage, life: Life, graph: StateGraph) -> None:
    """Run a service on the first day until its process dies."""
    views = run_storage.views()
    views_until_death = {"ledger": MortalLedger(views["ledger"], life), "saver": MortalSaver(views["saver"], life)}
    with suppress(StorageUnavailable):
        async with new_service(views_until_death, graph, NOON) as service:
            with suppress(StorageUnavailable):
                started = await service.start(WS, StartRun(graph="think", idempotency_key="k"))
                while not life.has_ended and (await service.run(WS, started.run.id)).status is not RunStatus.PAUSED:
                    await asyncio.sleep(0.002)
    await aresolve(views["ledger"].write([UpdateAll(Worker, [], {"until": LONG_AGO})]))


@pytest.mark.anyio
@pytest.mark.parametrize("makes_last", [False, True], ids=["before", "after"])
async def test_each_day_spends_exactly_its_limit_wherever_the_service_dies(tmp_path: Path, makes_last: bool) -> None:
    for number in range(1, 30):
        run_storage, model, life = (
            RunStorage(tmp_path / f"{number}.db"),
            fixed_usage_model(),
            Life(number, makes_last=makes_last),
        )
        try:
            graph = graph_of_calls(model, 4)
            await serve_until_death(run_storage, life, graph)
            statuses: list[RunStatus] = []
            for day_number in range(2):
                async with new_service(run_storage.views(), graph, NOON + timedelta(days=day_number)) as service:
                    started = await service.start(WS, StartRun(graph="think", idempotency_key="k"))
                    run = await wait_until_idle(service, started.run)
                    statuses.append(run.status)
                    types = await types_of(service, run)
                    days = await aresolve(service.context.ledger.find(DailySpending))
            assert statuses == [RunStatus.PAUSED, RunStatus.COMPLETED]
            assert [day.requests for day in days] == [2, 2]
            assert types.count("LLM_CALL_COMPLETED") == 4
            assert 4 <= len(model.requests) <= 5, "Only a call in progress is repeated."
        finally:
            run_storage.close()
        if not life.has_ended:
            return
    raise AssertionError("The run takes more writes: add some.")
