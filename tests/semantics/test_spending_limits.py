"""What all runs of a workspace may spend together on a day: nothing begins beyond it, and all goes on the next day."""

from __future__ import annotations

import asyncio
import logging
import operator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import WS, Places, rested, run_to_rest, serving

from statewright import END, START, Runtime, StateGraph, interrupt, wait_for_event
from statewright.agents.asking import ask
from statewright.errors import InvalidConfig, SpendingLimitReached
from statewright.messages import Message
from statewright.models import ModelRequest, ModelResponse, ScriptedModel, Usage
from statewright.runs import DailySpending, Run, RunStatus
from statewright.runtime.awaiting import answered
from statewright.service import SpendingLimits, StartRun
from statewright.service.schedules import NewSchedule, add_schedule
from statewright.service.triggers import NewTrigger, add_trigger
from statewright.service.workspaces import NewWorkspace, create_workspace
from statewright.testing import FakeClock, TestService

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TOMORROW = datetime(2026, 3, 2, tzinfo=UTC)
REQUEST = ModelRequest([Message("Go.", role="user")])


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    amount: int
    """What an event brings."""


class FAILED(TypedDict, total=False):
    runId: str
    graph: str
    input: Any
    error: Any
    log: list[str]


"""What a run is told of the one that has failed before it."""


def thinking(*, tokens: int = 10, cost: float = 0.25) -> ScriptedModel:
    """A model whose calls use up so much."""
    answer = ModelResponse(Message("Yes.", role="assistant"), Usage(tokens - 4, 4, cost), "thinker")
    return ScriptedModel([answer], repeat_last=True)


def thinker(model: ScriptedModel, name: str) -> Any:
    async def think(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        return {"log": [name]}

    return think


def hears(state: State) -> State:
    return {"log": [wait_for_event("paid")["amount"]]}


def plain(name: str) -> Any:
    def work(state: State) -> State:
        return {"log": [name]}

    return work


def line(name: str, state: Any = State, **nodes: Any) -> StateGraph:
    """Nodes one after another."""
    graph, before = StateGraph(state, name=name), START
    for node, function in nodes.items():
        graph.add_node(node, function)
        graph.add_edge(before, node)
        before = node
    return graph.add_edge(before, END)


def of_calls(model: ScriptedModel, calls: int, name: str = "think") -> StateGraph:
    """A graph that calls a model once in each of its nodes."""
    return line(name, **{f"n{number}": thinker(model, f"n{number}") for number in range(calls)})


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"start": NOON, "path": tmp_path / "runs.db" if request.param == "sqlite" else None}


def call(service: TestService, work: Any) -> Any:
    """What work on the loop of a service gives."""
    return service._call(work)


def spent(service: TestService, day: datetime = NOON) -> DailySpending | None:
    return call(service, answered(service._core.service.desk.ledger.get(DailySpending, DailySpending.of(WS, day).id)))


# -- what is counted


def test_what_runs_spend_is_counted_by_day_with_and_without_limits(place: dict[str, Any]) -> None:
    with TestService({"think": of_calls(thinking(), 2)}, **place) as service:
        for _ in range(2):
            assert service.start("think").status is RunStatus.COMPLETED
        service.advance(timedelta(days=1))
        service.start("think")
        found = [spent(service), spent(service, day=TOMORROW)]
        assert [(one.requests, one.tokens, one.cost) for one in found if one] == [(4, 40, 1.0), (2, 20, 0.5)]
        report = call(service, service._core.service.spending(WS))
        assert (report.spent, report.limits, report.reached) == (found[1], None, None)


def test_calls_of_a_step_that_fails_and_is_tried_again_count_once_each() -> None:
    model, fails = thinking(), [True, True, False]

    async def think(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        if fails.pop(0):
            raise ValueError("no")
        return {}

    with TestService({"think": line("think", think=think)}, start=NOON) as service:
        run = service.start("think")
        assert run.status is RunStatus.FAILED
        assert service.retry(run).status is RunStatus.FAILED
        assert service.retry(run).status is RunStatus.COMPLETED
        found = spent(service)
        assert found is not None
        assert (found.requests, len(model.requests)) == (3, 3)


def test_calls_in_subgraphs_and_branches_count() -> None:
    model = thinking()
    inner = of_calls(model, 2, "inner").compile()
    graph = StateGraph(State, name="outer")
    for name, node in (("a", inner), ("b", inner), ("c", thinker(model, "c"))):
        graph.add_node(name, node)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    with TestService({"outer": graph}, start=NOON) as service:
        assert service.start("outer").status is RunStatus.COMPLETED
        found = spent(service)
        assert found is not None
        assert (found.requests, found.tokens) == (5, 50)


# -- starts


@pytest.mark.parametrize(
    ("limits", "limit", "used", "most"),
    [
        (SpendingLimits(tokens_per_day=20), "tokens_per_day", 20, 20),
        (SpendingLimits(cost_per_day=0.4), "cost_per_day", 0.5, 0.4),
        (SpendingLimits(requests_per_day=2, tokens_per_day=1000), "requests_per_day", 2, 2),
    ],
)
def test_no_run_starts_when_the_day_is_used_up(limits: SpendingLimits, limit: str, used: float, most: float) -> None:
    with TestService({"think": of_calls(thinking(), 2)}, start=NOON, spending_limits=limits) as service:
        first = service.start("think", idempotency_key="k")
        assert first.status is RunStatus.COMPLETED, "its last superstep used up the day, and nothing was left to do"
        with pytest.raises(SpendingLimitReached) as caught:
            service.start("think")
        error = caught.value
        assert (error.limit, error.used, error.most, error.ends_at) == (limit, used, most, TOMORROW)
        assert (error.status, error.api_code, error.retry_after) == (429, "SPENDING_LIMIT_REACHED", 12 * 3600)
        for part in (WS, limit, f"{used:g} of {most:g}", "2026-03-02T00:00:00Z"):
            assert part in str(error)
        assert service.start("think", idempotency_key="k").id == first.id, "what was started is found again"
        later = service.start("think", after=TOMORROW)
        assert later.status is RunStatus.PENDING, "a run that begins on another day may be asked for today"
        service.advance(timedelta(hours=12))
        assert service.run(later).status is RunStatus.COMPLETED


def test_other_workspaces_are_not_concerned_and_may_have_limits_of_their_own() -> None:
    limits = {"sales": SpendingLimits(requests_per_day=3), "*": SpendingLimits(requests_per_day=1)}
    with TestService({"think": of_calls(thinking(), 1)}, start=NOON, spending_limits=limits) as service:
        inner = service._core.service
        made = [
            call(service, create_workspace(inner.desk.ledger, NewWorkspace(slug=slug), NOON)).id
            for slug in ("sales", "support")
        ]
        for workspace, most in zip((WS, *made), (1, 3, 1), strict=True):
            for _ in range(most):
                started = call(service, inner.start_and_wait(workspace, StartRun(graph="think"), 60))
                assert started.run.status is RunStatus.COMPLETED
            with pytest.raises(SpendingLimitReached) as caught:
                call(service, inner.start(workspace, StartRun(graph="think")))
            assert (caught.value.workspace_id, caught.value.most) == (workspace, most)


def test_a_failed_run_is_not_tried_again_when_the_day_is_used_up() -> None:
    fails = [True, False]

    def fail(state: State) -> State:
        if fails.pop(0):
            raise ValueError("no")
        return {}

    graphs = {"think": of_calls(thinking(), 1), "fail": line("fail", fail=fail)}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        failed = service.start("fail")
        assert failed.status is RunStatus.FAILED
        service.start("think")
        with pytest.raises(SpendingLimitReached):
            service.retry(failed)
        assert service.run(failed).status is RunStatus.FAILED
        service.advance(timedelta(hours=12))
        assert service.retry(failed).status is RunStatus.COMPLETED


def test_a_schedule_leaves_out_what_is_refused_and_goes_on_the_next_day(caplog: pytest.LogCaptureFixture) -> None:
    limits = SpendingLimits(requests_per_day=2)
    with TestService({"think": of_calls(thinking(), 1)}, start=NOON, spending_limits=limits) as service:
        ledger = service._core.service.desk.ledger
        wanted = NewSchedule(name="hourly", graph="think", cron="0 * * * *")
        call(service, add_schedule(ledger, WS, wanted, NOON))
        with caplog.at_level(logging.WARNING, "statewright.service"):
            service.advance(timedelta(hours=12) - timedelta(minutes=1))
        assert (
            "'hourly' could not start its run for 2026-03-01T15:00:00Z: Workspace 'default' has used up" in caplog.text
        )
        assert len(service.client.runs.list().items) == 2
        service.advance(timedelta(hours=2))
        assert len(service.client.runs.list().items) == 4, "midnight and one o'clock"
        assert (spent(service, day=TOMORROW) or DailySpending.of(WS, NOON)).requests == 2


def test_an_event_that_would_start_a_run_is_refused_as_a_whole() -> None:
    graphs = {"think": of_calls(thinking(), 1), "hears": line("hears", hears=hears)}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        call(service, add_trigger(service._core.service.desk.ledger, WS, NewTrigger(event="paid", graph="think"), NOON))
        waiting = service.start("hears")
        service.start("think")
        with pytest.raises(SpendingLimitReached):
            service.send_event("paid", {"amount": 3}, key="k")
        assert service.run(waiting).status is RunStatus.WAITING
        service.send_event("other", {})
        service.advance(timedelta(hours=12))
        sent = service.send_event("paid", {"amount": 3}, key="k")
        assert (len(sent.started), sent.woken) == (1, [waiting.id])
        assert service.run(sent.started[0]).status is RunStatus.COMPLETED


def test_what_is_to_be_done_after_a_failure_is_done_the_next_day() -> None:
    model = thinking()

    async def fail(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        raise ValueError("no")

    graphs = {"fails": line("fails", fail=fail), "tell": line("tell", FAILED, tell=plain("told"))}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        assert service.start("fails", settings={"onFailure": "tell"}).status is RunStatus.FAILED
        [told] = [one for one in service.client.runs.list().items if one.graph == "tell"]
        assert (told.status, told.next_run_at) == ("pending", TOMORROW)
        service.advance(timedelta(hours=12))
        assert service.run(told.id).status is RunStatus.COMPLETED


# -- runs under way


def test_a_run_stops_before_the_next_superstep_and_goes_on_the_next_day(place: dict[str, Any]) -> None:
    model = thinking()
    limits = SpendingLimits(tokens_per_day=20)
    with TestService({"think": of_calls(model, 3)}, **place, spending_limits=limits) as service:
        run = service.start("think")
        assert len(model.requests) == 2
        assert (run.status, run.due_at, run.claim) == (RunStatus.PAUSED, TOMORROW, None)
        assert run.error["code"] == "SW-spending-limit-reached"
        assert run.error["details"]["endsAt"] == "2026-03-02T00:00:00Z"
        [paused] = [one for one in service.events(run) if one.type == "WORKFLOW_PAUSED"]
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
        assert len(model.requests) == 3, "nothing is done twice"
        assert [one.type for one in service.events(run)].count("WORKFLOW_RESUMED") == 1
        found = [spent(service), spent(service, day=TOMORROW)]
        assert [one.requests for one in found if one] == [2, 1]


class Meeting:
    """A model that answers nobody until two have asked."""

    name = "meeting"

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, request: ModelRequest) -> ModelResponse:
        self.calls += 1
        while self.calls < 2:
            await asyncio.sleep(0.001)
        return ModelResponse(Message("Yes.", role="assistant"), Usage(6, 4, 0.25), "meeting")


def test_runs_side_by_side_stop_together(place: dict[str, Any]) -> None:
    model = Meeting()
    limits = SpendingLimits(requests_per_day=4)
    with TestService({"think": of_calls(model, 10)}, **place, spending_limits=limits) as service:
        inner = service._core.service

        async def start_both() -> list[Run]:
            wanted = [StartRun(graph="think"), StartRun(graph="think")]
            return [(await inner.start(WS, one)).run for one in wanted]

        both = call(service, start_both())
        service.settle()
        runs = [service.run(run) for run in both]
        assert [run.status for run in runs] == [RunStatus.PAUSED] * 2
        made = model.calls
        assert 4 <= made <= 5, "what the supersteps under way do beyond the limit is all that comes on top"
        assert (spent(service) or DailySpending.of(WS, NOON)).requests == made
        for _ in range(10):
            service.advance(timedelta(days=1))
        runs = [service.run(run) for run in runs]
        assert [run.status for run in runs] == [RunStatus.COMPLETED] * 2
        assert model.calls == 20, "nothing is done twice, and nothing is left out"


def test_a_run_that_calls_no_models_stops_too_when_another_has_used_up_the_day() -> None:
    model = thinking()
    asks = line("asks", first=lambda state: {"log": [interrupt("go on?")]}, second=plain("second"))
    graphs = {"think": of_calls(model, 1), "asks": asks}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        waiting = service.start("asks")
        service.start("think")
        run = service.answer(waiting, "yes")
        assert (run.status, run.due_at) == (RunStatus.WAITING, TOMORROW), "it waits, and its answer is kept"
        assert run.error["code"] == "SW-spending-limit-reached"
        service.advance(timedelta(hours=12))
        run = service.run(waiting)
        assert (run.status, run.error, run.output) == (RunStatus.COMPLETED, None, {"log": ["yes", "second"]})


@pytest.mark.anyio
async def test_a_run_of_another_process_stops_though_it_has_spent_nothing_since(tmp_path: Path) -> None:
    begun, free, clock = asyncio.Event(), asyncio.Event(), FakeClock(NOON)
    loop, model = asyncio.get_running_loop(), thinking()

    async def hold(state: State) -> State:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(free.wait(), loop))
        return {"log": ["held"]}

    graph = line("holds", hold=hold, last=thinker(model, "last"))
    options: dict[str, Any] = {"clock": clock, "spending_limits": SpendingLimits(requests_per_day=1)}
    place = Places(tmp_path / "runs.db")
    try:
        async with serving(place, graph, **options) as one, serving(place, of_calls(model, 1), **options) as other:
            held = (await one.start(WS, StartRun(graph="holds"))).run
            await begun.wait()
            assert (await run_to_rest(other, "think")).status is RunStatus.COMPLETED
            free.set()
            run = await rested(one, held)
            assert (run.status, run.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 1)
    finally:
        place.close()


def asking_beside(model: ScriptedModel, calls: int) -> StateGraph:
    """A question beside a subgraph that calls a model so often."""
    graph = StateGraph(State, name="outer")
    graph.add_node("asks", lambda state: {"log": [interrupt("go on?")]})
    graph.add_node("inner", of_calls(model, calls, "inner").compile())
    for name in ("asks", "inner"):
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph


def test_a_run_that_stops_within_a_subgraph_beside_an_open_question_goes_on_with_both(place: dict[str, Any]) -> None:
    model, limits = thinking(), SpendingLimits(requests_per_day=2)
    with TestService({"outer": asking_beside(model, 3)}, **place, spending_limits=limits) as service:
        run = service.start("outer")
        assert (run.status, run.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 2)
        assert list(service.waits(run)) == [], "it asks when all that is done beside the question is done"
        service.advance(timedelta(hours=12))
        run = service.run(run)
        assert (run.status, run.error, len(model.requests)) == (RunStatus.WAITING, None, 3)
        run = service.answer(run, "yes")
        assert (run.status, sorted(run.output["log"])) == (RunStatus.COMPLETED, ["n0", "n1", "n2", "yes"])
        assert len(model.requests) == 3


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_run_stops_in_each_durability(tmp_path: Path, durability: str) -> None:
    model, limits = thinking(), SpendingLimits(requests_per_day=2)
    graphs = {"think": of_calls(model, 20)}
    with TestService(graphs, start=NOON, path=tmp_path / "runs.db", spending_limits=limits) as service:
        run = service.start("think", settings={"durability": durability})
        for _ in range(20):
            service.advance(timedelta(days=1))
        run = service.run(run)
        assert (run.status, len(model.requests), len(run.output["log"])) == (RunStatus.COMPLETED, 20, 20)
        days = call(service, answered(service._core.service.desk.ledger.find(DailySpending)))
        assert sum(one.requests for one in days) == 20
        assert durability == "async" or [one.requests for one in days if one.requests] == [2] * 10


def test_a_child_begins_the_next_day_and_its_parent_with_it() -> None:
    model = thinking()

    def wait(state: State, runtime: Runtime[Any]) -> State:
        return {"log": runtime.start_run("kid", {})["log"]}

    graphs = {"parent": line("parent", wait=wait), "kid": of_calls(model, 1, "kid"), "think": of_calls(model, 2)}
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


def test_a_run_that_rests_for_the_day_can_be_cancelled_paused_and_resumed() -> None:
    model = thinking()
    limits = SpendingLimits(requests_per_day=1)
    with TestService({"think": of_calls(model, 2)}, start=NOON, spending_limits=limits) as service:
        run = service.start("think")
        assert run.status is RunStatus.PAUSED
        resumed = service.resume(run)
        assert (resumed.status, resumed.due_at, len(model.requests)) == (RunStatus.PAUSED, TOMORROW, 1)
        paused = service.pause(run)
        assert (paused.status, paused.due_at) == (RunStatus.PAUSED, None)
        service.advance(timedelta(days=2))
        assert service.run(run).status is RunStatus.PAUSED, "somebody halted it for good"
        assert service.resume(run).status is RunStatus.COMPLETED
        service.advance(timedelta(days=1))
        other = service.start("think")
        assert other.status is RunStatus.PAUSED
        assert service.cancel(other).status is RunStatus.CANCELLED


def test_a_run_with_a_deadline_before_the_next_day_fails_at_it() -> None:
    limits = SpendingLimits(requests_per_day=1)
    with TestService({"think": of_calls(thinking(), 2)}, start=NOON, spending_limits=limits) as service:
        run = service.start("think", timeout=3600)
        assert (run.status, run.due_at) == (RunStatus.PAUSED, NOON + timedelta(hours=1))
        service.advance(timedelta(hours=2))
        run = service.run(run)
        assert (run.status, run.error["code"]) == (RunStatus.FAILED, "RUN_TIMEOUT")


def test_a_higher_limit_lets_a_run_go_on_at_once(tmp_path: Path) -> None:
    model, path = thinking(), tmp_path / "runs.db"
    graphs = {"think": of_calls(model, 2)}
    with TestService(graphs, start=NOON, path=path, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        run = service.start("think")
        assert run.status is RunStatus.PAUSED
    with TestService(graphs, start=NOON, path=path, spending_limits=SpendingLimits(requests_per_day=9)) as service:
        again = service.resume(run)
        assert (again.status, len(model.requests)) == (RunStatus.COMPLETED, 2)


def test_a_limit_on_cost_warns_where_the_price_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    graphs, limits = {"think": of_calls(thinking(cost=0.0), 3)}, SpendingLimits(cost_per_day=1)
    with (
        caplog.at_level(logging.WARNING, "statewright"),
        TestService(graphs, start=NOON, spending_limits=limits) as service,
    ):
        assert service.start("think").status is RunStatus.COMPLETED
    assert caplog.text.count("The spending limit of 1 dollars a day does not count 10 tokens") == 1


# -- what limits may be


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: SpendingLimits(), "limits nothing. Give tokens_per_day"),
        (lambda: SpendingLimits(tokens_per_day=0), r"tokens_per_day=0\): give a whole number above 0"),
        (lambda: SpendingLimits(tokens_per_day=1.5), "tokens_per_day=1.5"),  # pyright: ignore
        (lambda: SpendingLimits(requests_per_day=True), "requests_per_day=True"),
        (lambda: SpendingLimits(cost_per_day=float("nan")), r"cost_per_day=nan\): give a number above 0"),
        (lambda: TestService({}, spending_limits={"sales": 5}), r"spending_limits\['sales'\] is 5"),
    ],
)
def test_wrong_limits_are_found_when_they_are_made(make: Any, expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected):
        make()


def test_limits_for_a_workspace_that_is_not_there_are_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    limits = {"defualt": SpendingLimits(requests_per_day=1), "default": SpendingLimits(requests_per_day=1)}
    with caplog.at_level(logging.WARNING, "statewright.service"), TestService({}, spending_limits=limits):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "There are spending limits for workspace 'defualt', which is not there (yet)."
    ]
