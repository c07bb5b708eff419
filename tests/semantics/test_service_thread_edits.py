"""Editing the thread of a waiting run: record, waits and thread agree, and no answer is lost."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import (
    PATIENCE,
    WS,
    RunStorage,
    events_of,
    run_until_idle,
    serving,
    wait_until,
    wait_until_idle,
)

from statewright import END, START, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition, NotFound, RequestConflict, SignalMismatch
from statewright.runs import Advance, Insert, Run, RunStatus, StepRun, StepStatus, where
from statewright.service import Service, ServiceSettings, StartRun
from statewright.service.engine.waits import wake_change
from statewright.service.operations.inbox import answer_to

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(poll_interval=0.02, drain=0.2)
NOT_OPEN = (InvalidTransition, NotFound)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def first(state: State) -> State:
    return {"log": ["first"]}


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def await_approval(state: State) -> State:
    question = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"}
    return {"log": [interrupt(question)["decision"]]}


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid", timeout=timedelta(hours=1))]}


def last(state: State) -> State:
    return {"log": ["last"]}


def chain(*nodes: Any) -> StateGraph:
    graph, before = StateGraph(State, name="g"), START
    for node in nodes:
        graph.add_node(node).add_edge(before, node.__name__)
        before = node.__name__
    return graph.add_edge(before, END)


def parallel(*nodes: Any) -> StateGraph:
    graph = StateGraph(State, name="g")
    for node in nodes:
        graph.add_node(node).add_edge(START, node.__name__).add_edge(node.__name__, END)
    return graph


async def waiting_run(service: Service) -> Run:
    run = await run_until_idle(service, "g", {}, thread_id="t")
    assert run.status is RunStatus.WAITING
    return run


async def completed(service: Service, run: Run) -> Any:
    """Return the output of the run once it has completed."""
    return (await wait_until(lambda: _completed_run(service, WS, run))).output


async def step_statuses(service: Service, run: Run) -> dict[str, StepStatus]:
    steps = await aresolve(service.context.ledger.find(StepRun, where(run_id=run.id)))
    return {step.name: step.status for step in steps}


@pytest.mark.parametrize("node", [ask, await_approval, await_payment])
async def test_an_update_as_a_waiting_node_replaces_its_result_and_the_run_continues(
    run_storage: RunStorage, node: Any
) -> None:
    async with serving(run_storage, chain(first, node, last), settings=QUICK) as service:
        run = await waiting_run(service)
        (wait,) = (await service.waits(WS)).items
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node=node.__name__)
        with pytest.raises(NOT_OPEN):
            await service.answer(WS, run.id, {wait.id: "late"})
        if node is await_approval:
            with pytest.raises(InvalidTransition):
                await service.decide(WS, wait.id, "approved")
            assert (await service.approval(WS, wait.id)).decision == "cancelled"
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}
        assert (await service.waits(WS)).total == 0
        statuses = await step_statuses(service, run)
        assert (statuses[node.__name__], statuses["last"]) == (StepStatus.CANCELLED, StepStatus.COMPLETED)
        (resumed,) = await events_of(service, run, "WORKFLOW_RESUMED")
        assert resumed.payload == {"reason": "thread changed"}


@pytest.mark.parametrize("as_node", ["ask", "__end__"])
async def test_an_update_that_leaves_nothing_to_do_completes_the_run(run_storage: RunStorage, as_node: str) -> None:
    async with serving(run_storage, chain(first, ask), settings=QUICK) as service:
        run = await waiting_run(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node=as_node)
        assert await completed(service, run) == {"log": ["first", "by hand"]}


async def test_a_run_completed_by_an_update_gets_the_state_of_its_own_workspace(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask), settings=QUICK) as service:
        await waiting_run(service)
        request = StartRun(graph="g", input={}, thread_id="t")
        run = (await service.start_and_wait("other", request, PATIENCE)).run
        await service.threads.update("other", "t", {"log": ["of the other"]}, as_node="ask")
        ended = wait_until(lambda: _completed_run(service, "other", run))
        assert (await ended).output == {"log": ["first", "of the other"]}


async def _completed_run(service: Service, workspace_id: str, run: Run) -> Run | None:
    current = await service.run(workspace_id, run.id)
    return current if current.status is RunStatus.COMPLETED else None


async def test_an_update_leaves_other_questions_open(run_storage: RunStorage) -> None:
    async with serving(run_storage, parallel(ask, await_payment), settings=QUICK) as service:
        run = await waiting_run(service)
        waits = {wait.step_name: wait for wait in (await service.waits(WS)).items}
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="ask")
        with pytest.raises(NOT_OPEN):
            await service.answer(WS, run.id, {waits["ask"].id: "late"})
        assert [wait.id for wait in (await service.waits(WS)).items] == [waits["await_payment"].id]
        await service.signal(WS, run.id, "paid", {"amount": 1})
        assert sorted(map(str, (await completed(service, run))["log"])) == ["by hand", "{'amount': 1}"]


async def test_an_update_that_closes_no_wait_leaves_the_run_waiting(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask, last), settings=QUICK) as service:
        run = await waiting_run(service)
        await service.threads.update(WS, "t", {"log": ["more"]}, as_node="first")
        run = await wait_until_idle(service, run)
        assert run.status is RunStatus.WAITING
        (wait,) = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert await completed(service, run) == {"log": ["first", "more", "yes", "last"]}


async def test_an_update_is_refused_if_the_run_has_received_an_answer(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask), settings=QUICK) as service:
        run = await waiting_run(service)
        (wait,) = (await service.waits(WS)).items
        now = service.clock.now()
        await service.context.write([Insert(answer_to(wait, "yes", now))])  # the run is not woken yet
        with pytest.raises(RequestConflict, match="has received an answer"):
            await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="ask")
        await service.context.write([wake_change(run.id, now)])
        assert await completed(service, run) == {"log": ["first", "yes"]}


async def test_an_update_is_refused_without_effect_if_the_run_changes_meanwhile(
    run_storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statewright.service.operations.thread_edits import ResumableRun

    async with serving(run_storage, chain(first, ask), settings=QUICK) as service:
        run = await waiting_run(service)
        find = ResumableRun.find

        async def find_and_change(*args: Any) -> Any:
            result = await find(*args)
            await service.context.write([Advance(run.id, service.clock.now(), {"error": None})])
            return result

        monkeypatch.setattr(ResumableRun, "find", find_and_change)
        before = await service.threads.state(WS, "t")
        with pytest.raises(RequestConflict, match="has changed since"):
            await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="ask")
        assert await service.threads.state(WS, "t") == before
        assert (await service.waits(WS)).total == 1


async def test_a_fork_to_before_a_question_repeats_it(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask, await_payment), settings=QUICK) as service:
        run = await waiting_run(service)
        (wait,) = (await service.waits(WS)).items
        asked_at = (await service.threads.state(WS, "t"))["checkpointId"]
        await service.answer(WS, run.id, {wait.id: "yes"})
        await wait_until(lambda: events_of(service, run, "TIMER_SCHEDULED"))
        run = await wait_until_idle(service, run)
        await service.threads.fork(WS, "t", asked_at)
        with pytest.raises((SignalMismatch, InvalidTransition)):
            await service.signal(WS, run.id, "paid", {}, must_wait=True)

        async def repeated_waits() -> Any:
            waits = [wait for wait in (await service.waits(WS)).items if wait.step_name == "ask"]
            return waits if waits and (await service.run(WS, run.id)).status is RunStatus.WAITING else None

        (again,) = await wait_until(repeated_waits)
        assert (await service.waits(WS)).total == 1
        await service.answer(WS, run.id, {again.id: "no"})
        await wait_until(lambda: _waits_for(service, "await_payment"))
        await service.signal(WS, run.id, "paid", {"amount": 1})
        assert await completed(service, run) == {"log": ["first", "no", {"amount": 1}]}


async def test_a_fork_to_another_branch_does_not_affect_the_run(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask), settings=QUICK) as service:
        run = await waiting_run(service)
        (wait,) = (await service.waits(WS)).items
        oldest = (await service.threads.history(WS, "t"))[-1]["checkpointId"]
        await service.threads.fork(WS, "t", oldest, "other")
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert await completed(service, run) == {"log": ["first", "yes"]}


async def test_a_paused_run_stays_paused_and_resumes_from_the_updated_state(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, ask, last), settings=QUICK) as service:
        run = await waiting_run(service)
        changes = {"status": RunStatus.PAUSED, "due_at": None}  # as if it was paused while it began to wait
        await service.context.write([Advance(run.id, service.clock.now(), changes)])
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="ask")
        assert (await service.run(WS, run.id)).status is RunStatus.PAUSED
        assert (await service.waits(WS)).total == 0
        await service.resume(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}


async def _waits_for(service: Service, step: str) -> bool:
    return any(wait.step_name == step for wait in (await service.waits(WS)).items)


# -- the thread of a failed run


class FailingNode:
    """A node that fails until it is fixed."""

    __name__ = "failing"

    def __init__(self) -> None:
        self.is_fixed = False

    def __call__(self, state: State) -> State:
        if not self.is_fixed:
            raise ConnectionError("away")
        return {"log": ["fixed"]}


async def failed_run(service: Service) -> Run:
    run = await run_until_idle(service, "g", {}, thread_id="t")
    assert run.status is RunStatus.FAILED
    return run


async def test_a_retry_continues_after_an_update_as_the_failed_node(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, FailingNode(), last), settings=QUICK) as service:
        run = await failed_run(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="failing")
        assert (await service.run(WS, run.id)).status is RunStatus.FAILED
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}
        assert await step_statuses(service, run) == {
            "first": StepStatus.COMPLETED, "failing": StepStatus.CANCELLED, "last": StepStatus.COMPLETED,
        }  # fmt: skip
        for kind in ("STEP_STARTED", "STEP_COMPLETED"):
            names = [event.payload["stepName"] for event in await events_of(service, run, kind)]
            assert names.count("last") == 1


async def test_a_retry_completes_a_run_after_an_update_as_its_failed_last_node(run_storage: RunStorage) -> None:
    async with serving(run_storage, chain(first, FailingNode()), settings=QUICK) as service:
        run = await failed_run(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="failing")
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand"]}
        assert (await step_statuses(service, run))["failing"] is StepStatus.CANCELLED


async def test_a_retry_continues_from_the_checkpoint_of_a_fork(run_storage: RunStorage) -> None:
    broken = FailingNode()
    async with serving(run_storage, chain(first, broken, last), settings=QUICK) as service:
        run = await failed_run(service)
        oldest = (await service.threads.history(WS, "t"))[-1]["checkpointId"]
        await service.threads.fork(WS, "t", oldest)
        broken.is_fixed = True
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "fixed", "last"]}
        steps = await aresolve(service.context.ledger.find(StepRun, where(run_id=run.id)))
        completed_names = sorted(step.name for step in steps if step.status is StepStatus.COMPLETED)
        assert completed_names == ["failing", "first", "last"]
        assert {step.status for step in steps} <= {StepStatus.COMPLETED, StepStatus.CANCELLED}


async def test_a_question_next_to_an_updated_failed_task_stays_open(run_storage: RunStorage) -> None:
    broken = FailingNode()
    async with serving(run_storage, parallel(ask, broken), settings=QUICK) as service:
        run = await failed_run(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="failing")
        await service.retry(WS, run.id)

        async def open_waits() -> Any:
            current = await service.run(WS, run.id)
            return current.status is RunStatus.WAITING and current.claim is None and (await service.waits(WS)).items

        (wait,) = await wait_until(open_waits)
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert sorted((await completed(service, run))["log"]) == ["by hand", "yes"]
        assert await step_statuses(service, run) == {"ask": StepStatus.COMPLETED, "failing": StepStatus.CANCELLED}


async def test_updating_a_thread_taken_over_by_another_run_does_not_affect_the_failed_run(
    run_storage: RunStorage,
) -> None:
    broken = FailingNode()
    async with serving(run_storage, chain(broken, ask), settings=QUICK) as service:
        run = await failed_run(service)
        broken.is_fixed = True
        await run_until_idle(service, "g", {}, thread_id="t")
        before = await service.run(WS, run.id)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="ask")
        assert (await service.run(WS, run.id)).version == before.version
        assert (await step_statuses(service, run))["failing"] is StepStatus.FAILED
