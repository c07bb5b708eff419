"""Spending of all runs of a workspace per day: it is counted, and nothing starts beyond the limit."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.semantics.on_services import WS
from tests.semantics.on_spending import (
    FAILED,
    NOON,
    REQUEST,
    TOMORROW,
    State,
    call,
    hears,
    line,
    of_calls,
    plain,
    spent,
    thinker,
    thinking,
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
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"start": NOON, "path": tmp_path / "runs.db" if request.param == "sqlite" else None}


# -- what is counted


def test_spending_of_runs_is_counted_by_day_with_and_without_limits(place: dict[str, Any]) -> None:
    with TestService({"think": of_calls(thinking(), 2)}, **place) as service:
        for _ in range(2):
            assert service.start("think").status is RunStatus.COMPLETED
        service.advance(timedelta(days=1))
        service.start("think")
        found = [spent(service), spent(service, day=TOMORROW)]
        assert [(one.requests, one.tokens, one.cost) for one in found if one] == [(4, 40, 1.0), (2, 20, 0.5)]
        report = call(service, service._parts.service.spending(WS))
        assert (report.spent, report.limits, report.reached) == (found[1], None, None)


def test_calls_of_a_step_that_fails_and_is_retried_count_once_each() -> None:
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
        inner = service._parts.service
        made = [
            call(service, create_workspace(inner.context.ledger, NewWorkspace(slug=slug), NOON)).id
            for slug in ("sales", "support")
        ]
        for workspace, most in zip((WS, *made), (1, 3, 1), strict=True):
            for _ in range(most):
                started = call(service, inner.start_and_wait(workspace, StartRun(graph="think"), 60))
                assert started.run.status is RunStatus.COMPLETED
            with pytest.raises(SpendingLimitReached) as caught:
                call(service, inner.start(workspace, StartRun(graph="think")))
            assert (caught.value.workspace_id, caught.value.most) == (workspace, most)


def test_a_failed_run_is_not_retried_when_the_day_is_used_up() -> None:
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


def test_a_schedule_leaves_out_what_is_refused_and_continues_the_next_day(caplog: pytest.LogCaptureFixture) -> None:
    limits = SpendingLimits(requests_per_day=2)
    with TestService({"think": of_calls(thinking(), 1)}, start=NOON, spending_limits=limits) as service:
        ledger = service._parts.service.context.ledger
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
        call(
            service,
            add_trigger(service._parts.service.context.ledger, WS, NewTrigger(event="paid", graph="think"), NOON),
        )
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


def test_on_failure_runs_start_the_next_day() -> None:
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


# -- what limits may be


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
def test_wrong_limits_are_found_when_they_are_made(make: Any, expected: str) -> None:
    with pytest.raises(InvalidConfig, match=expected):
        make()


def test_limits_for_a_workspace_that_is_not_there_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    limits = {"defualt": SpendingLimits(requests_per_day=1), "default": SpendingLimits(requests_per_day=1)}
    with caplog.at_level(logging.WARNING, "statewright.service"), TestService({}, spending_limits=limits):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        "Spending limits are set for workspace 'defualt', which does not exist (yet)."
    ]
