"""The daily spending of a workspace: it is counted, and no run starts beyond its limits."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.semantics.on_services import WS
from tests.semantics.on_spending import (
    NOON,
    REQUEST,
    TOMORROW,
    FailedRun,
    State,
    await_payment,
    call,
    calling_node,
    chain,
    fixed_usage_model,
    graph_of_calls,
    logging_node,
    spending_of,
)

from statewright import END, START, Runtime, StateGraph
from statewright.agents.loop.model_call import ask
from statewright.errors import InvalidConfig, SpendingLimitReached
from statewright.runs import DailySpending, RunStatus
from statewright.service import SpendingLimits, StartRun
from statewright.service.access.workspaces import NewWorkspace, create_workspace
from statewright.service.operations.triggers import NewTrigger, add_trigger
from statewright.service.schedules import NewSchedule, add_schedule
from statewright.testing import TestService


@pytest.fixture(params=["memory", "sqlite"])
def service_options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"start": NOON, "path": tmp_path / "runs.db" if request.param == "sqlite" else None}


# -- counting


def test_spending_of_runs_is_counted_by_day_with_and_without_limits(service_options: dict[str, Any]) -> None:
    with TestService({"think": graph_of_calls(fixed_usage_model(), 2)}, **service_options) as service:
        for _ in range(2):
            assert service.start("think").status is RunStatus.COMPLETED
        service.advance(timedelta(days=1))
        service.start("think")
        days = [spending_of(service), spending_of(service, day=TOMORROW)]
        assert [(day.requests, day.tokens, day.cost) for day in days if day] == [(4, 40, 1.0), (2, 20, 0.5)]
        report = call(service, service._parts.service.spending(WS))
        assert (report.spent, report.limits, report.reached) == (days[1], None, None)


def test_each_call_of_a_failed_and_retried_step_counts_once() -> None:
    model, fails = fixed_usage_model(), [True, True, False]

    async def think(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        if fails.pop(0):
            raise ValueError("no")
        return {}

    with TestService({"think": chain("think", think=think)}, start=NOON) as service:
        run = service.start("think")
        assert run.status is RunStatus.FAILED
        assert service.retry(run).status is RunStatus.FAILED
        assert service.retry(run).status is RunStatus.COMPLETED
        spending = spending_of(service)
        assert spending is not None
        assert (spending.requests, len(model.requests)) == (3, 3)


def test_calls_in_subgraphs_and_parallel_nodes_count() -> None:
    model = fixed_usage_model()
    inner = graph_of_calls(model, 2, "inner").compile()
    graph = StateGraph(State, name="outer")
    for name, node in (("a", inner), ("b", inner), ("c", calling_node(model, "c"))):
        graph.add_node(name, node)
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    with TestService({"outer": graph}, start=NOON) as service:
        assert service.start("outer").status is RunStatus.COMPLETED
        spending = spending_of(service)
        assert spending is not None
        assert (spending.requests, spending.tokens) == (5, 50)


# -- starts


@pytest.mark.parametrize(
    ("limits", "limit", "used", "maximum"),
    [
        (SpendingLimits(tokens_per_day=20), "tokens_per_day", 20, 20),
        (SpendingLimits(cost_per_day=0.4), "cost_per_day", 0.5, 0.4),
        (SpendingLimits(requests_per_day=2, tokens_per_day=1000), "requests_per_day", 2, 2),
    ],
)
def test_no_run_starts_once_the_daily_limit_is_reached(
    limits: SpendingLimits, limit: str, used: float, maximum: float
) -> None:
    with TestService({"think": graph_of_calls(fixed_usage_model(), 2)}, start=NOON, spending_limits=limits) as service:
        first = service.start("think", idempotency_key="k")
        assert first.status is RunStatus.COMPLETED, "the last superstep reached the limit, and nothing was left to do"
        with pytest.raises(SpendingLimitReached) as caught:
            service.start("think")
        error = caught.value
        assert (error.limit, error.used, error.most, error.ends_at) == (limit, used, maximum, TOMORROW)
        assert (error.status, error.api_code, error.retry_after) == (429, "SPENDING_LIMIT_REACHED", 12 * 3600)
        for part in (WS, limit, f"{used:g} of {maximum:g}", "2026-03-02T00:00:00Z"):
            assert part in str(error)
        assert service.start("think", idempotency_key="k").id == first.id, "a repeated key returns the existing run"
        later = service.start("think", after=TOMORROW)
        assert later.status is RunStatus.PENDING, "a run of another day can be requested today"
        service.advance(timedelta(hours=12))
        assert service.run(later).status is RunStatus.COMPLETED


def test_each_workspace_has_its_own_spending_and_limits() -> None:
    limits = {"sales": SpendingLimits(requests_per_day=3), "*": SpendingLimits(requests_per_day=1)}
    with TestService({"think": graph_of_calls(fixed_usage_model(), 1)}, start=NOON, spending_limits=limits) as service:
        inner = service._parts.service
        created = [
            call(service, create_workspace(inner.context.ledger, NewWorkspace(slug=slug), NOON)).id
            for slug in ("sales", "support")
        ]
        for workspace, maximum in zip((WS, *created), (1, 3, 1), strict=True):
            for _ in range(maximum):
                started = call(service, inner.start_and_wait(workspace, StartRun(graph="think"), 60))
                assert started.run.status is RunStatus.COMPLETED
            with pytest.raises(SpendingLimitReached) as caught:
                call(service, inner.start(workspace, StartRun(graph="think")))
            assert (caught.value.workspace_id, caught.value.most) == (workspace, maximum)


def test_a_failed_run_cannot_be_retried_once_the_daily_limit_is_reached() -> None:
    fails = [True, False]

    def fail(state: State) -> State:
        if fails.pop(0):
            raise ValueError("no")
        return {}

    graphs = {"think": graph_of_calls(fixed_usage_model(), 1), "fail": chain("fail", fail=fail)}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        failed = service.start("fail")
        assert failed.status is RunStatus.FAILED
        service.start("think")
        with pytest.raises(SpendingLimitReached):
            service.retry(failed)
        assert service.run(failed).status is RunStatus.FAILED
        service.advance(timedelta(hours=12))
        assert service.retry(failed).status is RunStatus.COMPLETED


def test_a_schedule_skips_refused_runs_and_continues_the_next_day(caplog: pytest.LogCaptureFixture) -> None:
    limits = SpendingLimits(requests_per_day=2)
    with TestService({"think": graph_of_calls(fixed_usage_model(), 1)}, start=NOON, spending_limits=limits) as service:
        ledger = service._parts.service.context.ledger
        schedule = NewSchedule(name="hourly", graph="think", cron="0 * * * *")
        call(service, add_schedule(ledger, WS, schedule, NOON))
        with caplog.at_level(logging.WARNING, "statewright.service"):
            service.advance(timedelta(hours=12) - timedelta(minutes=1))
        assert (
            "'hourly' could not start its run for 2026-03-01T15:00:00Z: Workspace 'default' has used up" in caplog.text
        )
        assert len(service.client.runs.list().items) == 2
        service.advance(timedelta(hours=2))
        assert len(service.client.runs.list().items) == 4, "midnight and one o'clock"
        assert (spending_of(service, day=TOMORROW) or DailySpending.of(WS, NOON)).requests == 2


def test_an_event_that_would_start_a_refused_run_is_refused_entirely() -> None:
    graphs = {
        "think": graph_of_calls(fixed_usage_model(), 1),
        "await_payment": chain("await_payment", await_payment=await_payment),
    }
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        call(
            service,
            add_trigger(service._parts.service.context.ledger, WS, NewTrigger(event="paid", graph="think"), NOON),
        )
        waiting = service.start("await_payment")
        service.start("think")
        with pytest.raises(SpendingLimitReached):
            service.send_event("paid", {"amount": 3}, key="k")
        assert service.run(waiting).status is RunStatus.WAITING
        service.send_event("other", {})
        service.advance(timedelta(hours=12))
        sent = service.send_event("paid", {"amount": 3}, key="k")
        assert (len(sent.started), sent.woken) == (1, [waiting.id])
        assert service.run(sent.started[0]).status is RunStatus.COMPLETED


def test_on_failure_runs_start_the_next_day() -> None:
    model = fixed_usage_model()

    async def fail(state: State, runtime: Runtime[Any]) -> State:
        await ask(model, REQUEST, runtime)
        raise ValueError("no")

    graphs = {"fails": chain("fails", fail=fail), "tell": chain("tell", FailedRun, tell=logging_node("told"))}
    with TestService(graphs, start=NOON, spending_limits=SpendingLimits(requests_per_day=1)) as service:
        assert service.start("fails", settings={"onFailure": "tell"}).status is RunStatus.FAILED
        [handler] = [run for run in service.client.runs.list().items if run.graph == "tell"]
        assert (handler.status, handler.next_run_at) == ("pending", TOMORROW)
        service.advance(timedelta(hours=12))
        assert service.run(handler.id).status is RunStatus.COMPLETED


# -- valid limits


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: SpendingLimits(), "has no limit. Give at least one of tokens_per_day"),
        (lambda: SpendingLimits(tokens_per_day=0), r"tokens_per_day=0\): give a whole number above 0"),
        (lambda: SpendingLimits(tokens_per_day=1.5), "tokens_per_day=1.5"),  # pyright: ignore
        (lambda: SpendingLimits(requests_per_day=True), "requests_per_day=True"),
        (lambda: SpendingLimits(cost_per_day=float("nan")), r"cost_per_day=nan\): give a number above 0"),
        (lambda: TestService({}, spending_limits={"sales": 5}), r"spending_limits\['sales'\] is 5"),
    ],
)
def test_invalid_limits_are_refused_on_construction(make: Any, expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected):
        make()


def test_limits_for_an_unknown_workspace_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    limits = {"defualt": SpendingLimits(requests_per_day=1), "default": SpendingLimits(requests_per_day=1)}
    with caplog.at_level(logging.WARNING, "statewright.service"), TestService({}, spending_limits=limits):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "Spending limits are set for workspace 'defualt', which does not exist (yet)."
    ]
