"""Status, valid operations and records of runs, for each status."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
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

from statewright import END, START, StateGraph, interrupt
from statewright.errors import InvalidTransition
from statewright.runs import ENDED, RunStatus, StepStatus
from statewright.service import Catalog, Service, ServiceSettings, StartRun
from statewright.testing import FakeClock
from statewright.workflow.steps import Handlers

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
LATER = datetime(2100, 1, 1, tzinfo=UTC)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


class Case:
    """A service with one run in a given status."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.go, self.begun = threading.Event(), threading.Event()
        self.broken = True
        self.run: Any = None

    def block(self, state: State) -> State:
        self.begun.set()
        self.go.wait(PATIENCE)
        return {"log": ["held"]}

    def ask(self, state: State) -> State:
        return {"log": [interrupt("go on?")]}

    def fail(self, state: State) -> State:
        if self.broken:
            raise ValueError("no luck")
        return {"log": ["fixed"]}

    async def bring_to(self, status: RunStatus) -> None:
        service, start = self.service, self.service.start
        if status is RunStatus.PENDING:
            self.run = (await start(WS, StartRun(graph="finish", after=LATER))).run
        elif status in (RunStatus.RUNNING, RunStatus.PAUSED):
            self.run = (await start(WS, StartRun(graph="block"))).run
            assert await asyncio.to_thread(self.begun.wait, PATIENCE)
            if status is RunStatus.PAUSED:
                await service.pause(WS, self.run.id)
                self.go.set()
        else:
            graph = {RunStatus.WAITING: "ask", RunStatus.FAILED: "fail", RunStatus.COMPLETED: "finish"}
            self.run = await run_until_idle(service, graph.get(status, "ask"))
            if status is RunStatus.CANCELLED:
                await service.cancel(WS, self.run.id)
        self.run = await self.reached(status)

    async def reached(self, *status: RunStatus) -> Any:
        """Return the run once it has one of these statuses, and no claim unless it is to be running."""

        async def run_with_status() -> Any:
            run = await self.service.run(WS, self.run.id)
            return run if run.status in status and (run.claim is None or status == (RunStatus.RUNNING,)) else None

        return await wait_until(run_with_status)


@asynccontextmanager
async def run_in_status(run_storage: RunStorage, status: RunStatus) -> AsyncIterator[Case]:
    """Yield a service with one run in this status."""
    catalog = Catalog()
    case = Case(None)
    for name, nodes in {
        "block": (case.block, finish),
        "ask": (case.ask, finish),
        "fail": (case.fail, finish),
        "finish": (finish,),
    }.items():
        catalog.serve(name, graph_of(name, *nodes))
    async with Service(catalog, **run_storage.views(), settings=QUICK) as service:
        case.service = service
        try:
            await case.bring_to(status)
            yield case
        finally:
            case.go.set()


def graph_of(name: str, *nodes: Any) -> StateGraph:
    graph = StateGraph(State, name=name)
    before = START
    for node in nodes:
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    return graph


def finish(state: State) -> State:
    return {"log": ["end"]}


ALLOWED = {
    "cancel": {*RunStatus},  # cancelling an ended run does nothing
    "pause": {RunStatus.RUNNING, RunStatus.PAUSED},
    "resume": {RunStatus.PAUSED},
    "retry": {RunStatus.FAILED},
    "signal": {*RunStatus} - ENDED,
    "answer": {RunStatus.WAITING},
    "signal with must_wait": set(),
}


def act(case: Case, operation: str) -> Any:
    service, run = case.service, case.run
    if operation == "signal":
        return service.signal(WS, run.id, "news", {})
    if operation == "signal with must_wait":
        return service.signal(WS, run.id, "news", {}, must_wait=True)
    return service.answer(WS, run.id, {}) if operation == "answer" else getattr(service, operation)(WS, run.id)


@pytest.mark.parametrize("status", list(RunStatus))
async def test_valid_operations_depend_on_the_status_of_a_run(run_storage: RunStorage, status: RunStatus) -> None:
    async with run_in_status(run_storage, status) as case:
        before = case.run
        events = len(await types_of(case.service, before))
        for operation, allowed in ALLOWED.items():
            if status in allowed:
                continue
            with pytest.raises(InvalidTransition if operation != "signal with must_wait" else Exception) as raised:
                await act(case, operation)
            assert raised.value.status == 409
            after = await case.service.run(WS, before.id)
            assert (after.status, after.version) == (before.status, before.version), operation
        assert len(await types_of(case.service, before)) == events


@pytest.mark.parametrize("status", list(RunStatus))
async def test_a_run_can_be_cancelled_in_every_status_except_an_end(run_storage: RunStorage, status: RunStatus) -> None:
    async with run_in_status(run_storage, status) as case:
        version = case.run.version
        run = await case.service.cancel(WS, case.run.id, "enough")
        if status in ENDED:
            assert (run.status, run.version) == (status, version)
            return
        assert (run.status, run.claim, run.due_at, run.worker_id) == (RunStatus.CANCELLED, None, None, None)
        assert (run.output, run.error) == (None, None)
        assert run.cancelled_at is not None
        assert (run.completed_at, run.failed_at) == (None, None)
        [event] = await events_of(case.service, run, "WORKFLOW_CANCELLED")
        assert event.payload == {"reason": "enough"}
        steps = await case.service.steps(WS, run.id)
        assert all(step.status in (StepStatus.COMPLETED, StepStatus.CANCELLED) for step in steps)
        assert (await case.service.waits(WS)).total == 0
        case.go.set()
        await asyncio.sleep(0.02)
        after = await case.service.run(WS, run.id)
        assert (after.status, after.version) == (run.status, run.version)


@pytest.mark.parametrize("status", list(RunStatus))
async def test_the_record_of_a_run_fits_its_status(run_storage: RunStorage, status: RunStatus) -> None:
    async with run_in_status(run_storage, status) as case:
        run = await case.service.run(WS, case.run.id)
        instants = {
            RunStatus.COMPLETED: run.completed_at,
            RunStatus.FAILED: run.failed_at,
            RunStatus.CANCELLED: run.cancelled_at,
        }
        assert [ending for ending, at in instants.items() if at is not None] == [
            ending for ending in instants if ending is status
        ]
        assert (run.started_at is None) is (status is RunStatus.PENDING)
        assert (run.claim is not None) is (status is RunStatus.RUNNING)
        assert (run.due_at is not None) is (status is RunStatus.PENDING)
        assert (run.output is not None) is (status is RunStatus.COMPLETED)
        assert (run.error is not None) is (status is RunStatus.FAILED)
        assert run.updated_at >= run.created_at
        assert run.last_event == len(await types_of(case.service, run))
        steps = [step.status for step in await case.service.steps(WS, run.id)]
        assert (
            steps
            == {
                RunStatus.PENDING: [],
                RunStatus.RUNNING: [StepStatus.RUNNING],
                RunStatus.PAUSED: [StepStatus.COMPLETED, StepStatus.PENDING],
                RunStatus.WAITING: [StepStatus.WAITING],
                RunStatus.COMPLETED: [StepStatus.COMPLETED],
                RunStatus.FAILED: [StepStatus.FAILED],
                RunStatus.CANCELLED: [StepStatus.CANCELLED],
            }[status]
        )


async def test_a_retried_run_shows_no_trace_of_its_failure(run_storage: RunStorage) -> None:
    async with run_in_status(run_storage, RunStatus.FAILED) as case:
        case.broken = False
        await case.service.retry(WS, case.run.id)
        run = await case.reached(RunStatus.COMPLETED)
        assert (run.error, run.failed_at, run.output) == (None, None, {"log": ["fixed", "end"]})
        assert run.completed_at is not None
        assert [(step.error, step.attempt) for step in await case.service.steps(WS, run.id)] == [(None, 1)] * 2


async def test_a_run_that_fails_again_can_be_retried(run_storage: RunStorage) -> None:
    async with run_in_status(run_storage, RunStatus.FAILED) as case:
        for _ in range(3):
            await case.service.retry(WS, case.run.id)
            run = await case.reached(RunStatus.FAILED)
        types = await types_of(case.service, run)
        assert (types.count("WORKFLOW_FAILED"), types.count("WORKFLOW_RETRIED")) == (4, 3)
        assert types.count("WORKFLOW_STARTED") == 1


async def test_a_paused_run_can_be_paused_again_and_resumes_where_it_stopped(run_storage: RunStorage) -> None:
    async with run_in_status(run_storage, RunStatus.PAUSED) as case:
        again = await case.service.pause(WS, case.run.id)
        assert again.version == case.run.version
        await case.service.resume(WS, case.run.id)
        run = await case.reached(RunStatus.COMPLETED)
        assert run.output == {"log": ["held", "end"]}
        assert "pause" not in run.settings
        with pytest.raises(InvalidTransition):
            await case.service.pause(WS, run.id)


async def test_a_run_that_completes_before_its_pause_applies_cannot_be_paused_again(run_storage: RunStorage) -> None:
    go, begun = threading.Event(), threading.Event()

    def last(state: State) -> State:
        begun.set()
        go.wait(PATIENCE)
        return {"log": ["last"]}

    async with serving(run_storage, graph_of("last", last), settings=QUICK) as service:
        run = (await service.start(WS, StartRun(graph="last"))).run
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        await service.pause(WS, run.id)
        go.set()
        run = await service.wait(WS, run.id, PATIENCE)
        assert run.status is RunStatus.COMPLETED
        with pytest.raises(InvalidTransition):
            await service.pause(WS, run.id)


# -- workflows of steps in JSON


def catalog_of(*step_definitions: dict[str, Any], **functions: Any) -> tuple[Catalog, FakeClock]:
    catalog = Catalog(handlers=Handlers(functions))
    catalog.serve_steps({"name": "flow", "version": "1", "steps": list(step_definitions)})
    return catalog, FakeClock()


@asynccontextmanager
async def serving_steps(
    run_storage: RunStorage, *step_definitions: dict[str, Any], **functions: Any
) -> AsyncIterator[tuple[Any, FakeClock]]:
    catalog, clock = catalog_of(*step_definitions, **functions)
    async with Service(catalog, **run_storage.views(), clock=clock, settings=QUICK) as service:
        yield service, clock


async def settled(service: Any, run: Any, *status: RunStatus) -> Any:
    """Return the run once it has one of these statuses, by default an end, and no claim."""

    async def run_with_status() -> Any:
        current = await service.run(WS, run.id)
        return current if current.status in (status or ENDED) and current.claim is None else None

    return await wait_until(run_with_status)


WAIT = {"name": "nap", "type": "wait", "durationMs": 60000}
EVENT = {"name": "pay", "type": "external_event", "signalType": "paid"}


async def test_a_wait_step_completes_when_it_is_due(run_storage: RunStorage) -> None:
    async with serving_steps(run_storage, WAIT) as (service, clock):
        run = await run_until_idle(service, "flow", {"a": 1})
        [step] = await service.steps(WS, run.id)
        assert (run.status, run.due_at, run.current_step) == (RunStatus.WAITING, step.wait_until, "nap")
        clock.advance(timedelta(minutes=1))
        service.wake_background_tasks()
        run = await settled(service, run)
        assert (run.status, run.output, run.due_at) == (RunStatus.COMPLETED, {}, None)
        [step] = await service.steps(WS, run.id)
        assert (step.status, step.wait_until, step.type) == (StepStatus.COMPLETED, None, "wait")


async def test_the_payload_of_a_signal_becomes_part_of_the_state(run_storage: RunStorage) -> None:
    async with serving_steps(run_storage, EVENT) as (service, _):
        run = await run_until_idle(service, "flow")
        with pytest.raises(Exception, match="payd") as raised:
            await service.signal(WS, run.id, "payd", {}, must_wait=True)
        assert raised.value.status == 409
        assert (await service.run(WS, run.id)).status is RunStatus.WAITING
        await service.signal(WS, run.id, "paid", {"amount": {"eur": 3}}, must_wait=True)
        run = await settled(service, run)
        assert (run.status, run.output) == (RunStatus.COMPLETED, {"amount": {"eur": 3}})


async def test_a_failed_result_is_retried_and_then_fails_the_run(run_storage: RunStorage) -> None:
    calls: list[int] = []

    def fail(ctx: Any) -> dict[str, Any]:
        calls.append(1)
        return {"status": "failed", "error": {"message": "no luck", "code": "LUCK"}, "stateUpdates": {"lost": 1}}

    step = {"name": "try", "type": "task", "handler": "fail", "retry": {"maxAttempts": 2, "backoffMs": 1000}}
    async with serving_steps(run_storage, step, fail=fail) as (service, clock):
        run = (await service.start(WS, StartRun(graph="flow"))).run
        [event] = await wait_until(lambda: events_of(service, run, "STEP_RETRY_SCHEDULED"))
        assert event.payload["attempt"] == 2

        async def ended_after_a_while() -> Any:
            clock.advance(timedelta(seconds=2))  # repeatedly: the alarm may not be set yet
            current = await service.run(WS, run.id)
            return current if current.status in ENDED else None

        run = await wait_until(ended_after_a_while)
        assert (run.status, run.error["code"], run.error["step"]) == (RunStatus.FAILED, "LUCK", "try")
        assert (len(calls), await service.state(WS, run.id)) == (2, {})
        [step_run] = await service.steps(WS, run.id)
        assert (step_run.status, step_run.attempt) == (StepStatus.FAILED, 2)
        assert (await types_of(service, run)).count("STEP_FAILED") == 2


async def test_a_branch_that_is_not_taken_is_skipped(run_storage: RunStorage) -> None:
    branch = {"name": "high", "type": "condition", "expression": "score", "trueStep": "done", "falseStep": "mail"}
    done = {"name": "done", "type": "task", "handler": "mark"}
    mail = {"name": "mail", "type": "task", "handler": "mark"}
    score = {"name": "score", "type": "task", "handler": "score"}
    handlers = {"score": lambda ctx: {"stateUpdates": {"score": 80}}, "mark": lambda ctx: {"output": {"marked": 1}}}
    async with serving_steps(run_storage, score, branch, mail, done, **handlers) as (service, _):
        run = await run_until_idle(service, "flow")
        statuses = {step.name: step.status for step in await service.steps(WS, run.id)}
        assert statuses == {
            "score": StepStatus.COMPLETED,
            "high": StepStatus.COMPLETED,
            "mail": StepStatus.SKIPPED,
            "done": StepStatus.COMPLETED,
        }
        assert run.output == {"score": 80, "__condition_high": True}
        assert [event.payload["stepName"] for event in await events_of(service, run, "STEP_SKIPPED")] == ["mail"]


@pytest.mark.parametrize("on_reject", ["fail", "continue"])
async def test_a_rejected_approval_fails_or_continues_the_run_as_configured(
    run_storage: RunStorage, on_reject: str
) -> None:
    write = {"name": "write", "type": "task", "handler": "write"}
    agree = {"name": "agree", "type": "approval", "contentKey": "letter", "onReject": on_reject}
    handlers = {"write": lambda ctx: {"stateUpdates": {"letter": "dear"}}}
    async with serving_steps(run_storage, write, agree, **handlers) as (service, _):
        run = await run_until_idle(service, "flow")
        [pending] = (await service.approvals(WS, pending=True)).items
        decided = await service.decide(WS, pending.id, "rejected", decided_by="ann")
        assert (decided.decision, decided.decided_by, decided.edited_content) == ("rejected", "ann", None)
        run = await settled(service, run)
        if on_reject == "fail":
            assert (run.status, run.error["code"]) == (RunStatus.FAILED, "APPROVAL_REJECTED")
        else:
            assert run.status is RunStatus.COMPLETED
        with pytest.raises(InvalidTransition):
            await service.decide(WS, pending.id, "approved")


async def test_retrying_a_run_repeats_its_rejected_approval(run_storage: RunStorage) -> None:
    write = {"name": "write", "type": "task", "handler": "write"}
    agree = {"name": "agree", "type": "approval", "contentKey": "letter"}
    handlers = {"write": lambda ctx: {"stateUpdates": {"letter": "dear"}}}
    async with serving_steps(run_storage, write, agree, **handlers) as (service, _):
        run = await run_until_idle(service, "flow")
        [pending] = (await service.approvals(WS, pending=True)).items
        await service.decide(WS, pending.id, "rejected")
        await settled(service, run)
        await service.retry(WS, run.id)
        run = await settled(service, run, RunStatus.WAITING, *ENDED)
        assert run.status is RunStatus.WAITING
        [again] = (await service.approvals(WS, pending=True)).items
        await service.decide(WS, again.id, "edited", edited_content="dear all")
        run = await settled(service, run)
        assert (run.status, run.output["letter"]) == (RunStatus.COMPLETED, "dear all")
