"""Editing the thread of a waiting run: record, waits and thread agree, and no answer is lost."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import PATIENCE, WS, Places, events_of, rested, run_to_rest, serving, until

from statewright import END, START, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition, NotFound, RequestConflict, SignalMismatch
from statewright.runs import Advance, Insert, Run, RunStatus, StepRun, StepStatus, where
from statewright.service import Service, ServiceSettings, StartRun
from statewright.service.engine.waits import wake_change
from statewright.service.operations.inbox import answer_to

pytestmark = pytest.mark.anyio
QUICK = ServiceSettings(look_every=0.02, drain=0.2)
NOT_OPEN = (InvalidTransition, NotFound)


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def first(state: State) -> State:
    return {"log": ["first"]}


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def approves(state: State) -> State:
    asked = {"type": "approval", "contentKey": None, "content": "a letter", "prompt": "send it?"}
    return {"log": [interrupt(asked)["decision"]]}


def pays(state: State) -> State:
    return {"log": [wait_for_event("paid", timeout=timedelta(hours=1))]}


def last(state: State) -> State:
    return {"log": ["last"]}


def chain(*nodes: Any) -> StateGraph:
    graph, before = StateGraph(State, name="g"), START
    for node in nodes:
        graph.add_node(node).add_edge(before, node.__name__)
        before = node.__name__
    return graph.add_edge(before, END)


def beside(*nodes: Any) -> StateGraph:
    graph = StateGraph(State, name="g")
    for node in nodes:
        graph.add_node(node).add_edge(START, node.__name__).add_edge(node.__name__, END)
    return graph


async def waiting(service: Service) -> Run:
    run = await run_to_rest(service, "g", {}, thread_id="t")
    assert run.status is RunStatus.WAITING
    return run


async def completed(service: Service, run: Run) -> Any:
    async def one() -> Any:
        found = await service.run(WS, run.id)
        return found if found.status is RunStatus.COMPLETED else None

    return (await until(one)).output


async def steps(service: Service, run: Run) -> dict[str, StepStatus]:
    found = await aresolve(service.context.ledger.find(StepRun, where(run_id=run.id)))
    return {step.name: step.status for step in found}


@pytest.mark.parametrize("node", [asks, approves, pays])
async def test_a_waiting_step_is_done_from_outside_and_the_run_continues(place: Places, node: Any) -> None:
    async with serving(place, chain(first, node, last), settings=QUICK) as service:
        run = await waiting(service)
        (wait,) = (await service.waits(WS)).items
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node=node.__name__)
        with pytest.raises(NOT_OPEN):
            await service.answer(WS, run.id, {wait.id: "late"})
        if node is approves:
            with pytest.raises(InvalidTransition):
                await service.decide(WS, wait.id, "approved")
            assert (await service.approval(WS, wait.id)).decision == "cancelled"
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}
        assert (await service.waits(WS)).total == 0
        known = await steps(service, run)
        assert (known[node.__name__], known["last"]) == (StepStatus.CANCELLED, StepStatus.COMPLETED)
        (resumed,) = await events_of(service, run, "WORKFLOW_RESUMED")
        assert resumed.payload == {"reason": "thread changed"}


@pytest.mark.parametrize("as_node", ["asks", "__end__"])
async def test_a_run_that_has_nothing_left_to_do_ends_with_the_state_that_it_was_given(
    place: Places, as_node: str
) -> None:
    async with serving(place, chain(first, asks), settings=QUICK) as service:
        run = await waiting(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node=as_node)
        assert await completed(service, run) == {"log": ["first", "by hand"]}


async def test_the_state_that_a_run_ends_with_is_that_of_its_own_workspace(place: Places) -> None:
    async with serving(place, chain(first, asks), settings=QUICK) as service:
        await waiting(service)
        wanted = StartRun(graph="g", input={}, thread_id="t")
        run = (await service.start_and_wait("other", wanted, PATIENCE)).run
        await service.threads.update("other", "t", {"log": ["of the other"]}, as_node="asks")
        ended = until(lambda: _is_completed(service, "other", run))
        assert (await ended).output == {"log": ["first", "of the other"]}


async def _is_completed(service: Service, workspace_id: str, run: Run) -> Run | None:
    found = await service.run(workspace_id, run.id)
    return found if found.status is RunStatus.COMPLETED else None


async def test_other_questions_stay_open(place: Places) -> None:
    async with serving(place, beside(asks, pays), settings=QUICK) as service:
        run = await waiting(service)
        waits = {wait.step_name: wait for wait in (await service.waits(WS)).items}
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="asks")
        with pytest.raises(NOT_OPEN):
            await service.answer(WS, run.id, {waits["asks"].id: "late"})
        assert [wait.id for wait in (await service.waits(WS)).items] == [waits["pays"].id]
        await service.signal(WS, run.id, "paid", {"amount": 1})
        assert sorted(map(str, (await completed(service, run))["log"])) == ["by hand", "{'amount': 1}"]


async def test_an_update_that_closes_nothing_leaves_the_run_waiting(place: Places) -> None:
    async with serving(place, chain(first, asks, last), settings=QUICK) as service:
        run = await waiting(service)
        await service.threads.update(WS, "t", {"log": ["more"]}, as_node="first")
        run = await rested(service, run)
        assert run.status is RunStatus.WAITING
        (wait,) = (await service.waits(WS)).items
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert await completed(service, run) == {"log": ["first", "more", "yes", "last"]}


async def test_an_answer_that_was_accepted_is_not_thrown_away(place: Places) -> None:
    async with serving(place, chain(first, asks), settings=QUICK) as service:
        run = await waiting(service)
        (wait,) = (await service.waits(WS)).items
        now = service.clock.now()
        await service.context.write([Insert(answer_to(wait, "yes", now))])  # and nobody has woken the run yet
        with pytest.raises(RequestConflict, match="has received an answer"):
            await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="asks")
        await service.context.write([wake_change(run.id, now)])
        assert await completed(service, run) == {"log": ["first", "yes"]}


async def test_a_run_that_is_taken_up_meanwhile_is_a_conflict_and_nothing_is_changed(
    place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    from statewright.service.operations.thread_edits import ResumableRun

    async with serving(place, chain(first, asks), settings=QUICK) as service:
        run = await waiting(service)
        find = ResumableRun.find

        async def overtaken(*args: Any) -> Any:
            found = await find(*args)
            await service.context.write([Advance(run.id, service.clock.now(), {"error": None})])
            return found

        monkeypatch.setattr(ResumableRun, "find", overtaken)
        before = await service.threads.state(WS, "t")
        with pytest.raises(RequestConflict, match="has changed since"):
            await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="asks")
        assert await service.threads.state(WS, "t") == before
        assert (await service.waits(WS)).total == 1


async def test_a_fork_to_before_the_question_asks_it_again(place: Places) -> None:
    async with serving(place, chain(first, asks, pays), settings=QUICK) as service:
        run = await waiting(service)
        (wait,) = (await service.waits(WS)).items
        asked_at = (await service.threads.state(WS, "t"))["checkpointId"]
        await service.answer(WS, run.id, {wait.id: "yes"})
        await until(lambda: events_of(service, run, "TIMER_SCHEDULED"))
        run = await rested(service, run)
        await service.threads.fork(WS, "t", asked_at)
        with pytest.raises((SignalMismatch, InvalidTransition)):
            await service.signal(WS, run.id, "paid", {}, must_wait=True)

        async def asked_again() -> Any:
            found = [one for one in (await service.waits(WS)).items if one.step_name == "asks"]
            return found if found and (await service.run(WS, run.id)).status is RunStatus.WAITING else None

        (again,) = await until(asked_again)
        assert (await service.waits(WS)).total == 1
        await service.answer(WS, run.id, {again.id: "no"})
        await until(lambda: service.waits(WS))
        await until(lambda: _waits_for(service, "pays"))
        await service.signal(WS, run.id, "paid", {"amount": 1})
        assert await completed(service, run) == {"log": ["first", "no", {"amount": 1}]}


async def test_a_fork_to_a_branch_of_its_own_does_not_concern_the_run(place: Places) -> None:
    async with serving(place, chain(first, asks), settings=QUICK) as service:
        run = await waiting(service)
        (wait,) = (await service.waits(WS)).items
        oldest = (await service.threads.history(WS, "t"))[-1]["checkpointId"]
        await service.threads.fork(WS, "t", oldest, "other")
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert await completed(service, run) == {"log": ["first", "yes"]}


async def test_a_halted_run_stays_halted_and_continues_from_the_changed_state(place: Places) -> None:
    async with serving(place, chain(first, asks, last), settings=QUICK) as service:
        run = await waiting(service)
        halted = {"status": RunStatus.PAUSED, "due_at": None}  # as one that was told to while it came to wait
        await service.context.write([Advance(run.id, service.clock.now(), halted)])
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="asks")
        assert (await service.run(WS, run.id)).status is RunStatus.PAUSED
        assert (await service.waits(WS)).total == 0
        await service.resume(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}


async def _waits_for(service: Service, step: str) -> bool:
    return any(wait.step_name == step for wait in (await service.waits(WS)).items)


# -- the thread of a run that has failed


class Broken:
    """A node that fails until it is mended."""

    __name__ = "breaks"

    def __init__(self) -> None:
        self.mended = False

    def __call__(self, state: State) -> State:
        if not self.mended:
            raise ConnectionError("away")
        return {"log": ["mended"]}


async def failed(service: Service) -> Run:
    run = await run_to_rest(service, "g", {}, thread_id="t")
    assert run.status is RunStatus.FAILED
    return run


async def test_a_failed_step_is_done_from_outside_and_the_run_continues_after_it(place: Places) -> None:
    async with serving(place, chain(first, Broken(), last), settings=QUICK) as service:
        run = await failed(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="breaks")
        assert (await service.run(WS, run.id)).status is RunStatus.FAILED
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand", "last"]}
        assert await steps(service, run) == {
            "first": StepStatus.COMPLETED, "breaks": StepStatus.CANCELLED, "last": StepStatus.COMPLETED,
        }  # fmt: skip
        for kind in ("STEP_STARTED", "STEP_COMPLETED"):
            told = [event.payload["stepName"] for event in await events_of(service, run, kind)]
            assert told.count("last") == 1


async def test_a_failed_run_whose_last_step_is_done_from_outside_ends(place: Places) -> None:
    async with serving(place, chain(first, Broken()), settings=QUICK) as service:
        run = await failed(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="breaks")
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "by hand"]}
        assert (await steps(service, run))["breaks"] is StepStatus.CANCELLED


async def test_a_failed_run_continues_from_where_its_thread_was_forked(place: Places) -> None:
    broken = Broken()
    async with serving(place, chain(first, broken, last), settings=QUICK) as service:
        run = await failed(service)
        oldest = (await service.threads.history(WS, "t"))[-1]["checkpointId"]
        await service.threads.fork(WS, "t", oldest)
        broken.mended = True
        await service.retry(WS, run.id)
        assert await completed(service, run) == {"log": ["first", "mended", "last"]}
        found = await aresolve(service.context.ledger.find(StepRun, where(run_id=run.id)))
        done = sorted(step.name for step in found if step.status is StepStatus.COMPLETED)
        assert done == ["breaks", "first", "last"]
        assert {step.status for step in found} <= {StepStatus.COMPLETED, StepStatus.CANCELLED}


async def test_a_question_next_to_a_failed_task_stays_open_and_keeps_its_answer(place: Places) -> None:
    broken = Broken()
    async with serving(place, beside(asks, broken), settings=QUICK) as service:
        run = await failed(service)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="breaks")
        await service.retry(WS, run.id)

        async def waits() -> Any:
            now = await service.run(WS, run.id)
            return now.status is RunStatus.WAITING and now.claim is None and (await service.waits(WS)).items

        (wait,) = await until(waits)
        await service.answer(WS, run.id, {wait.id: "yes"})
        assert sorted((await completed(service, run))["log"]) == ["by hand", "yes"]
        assert await steps(service, run) == {"asks": StepStatus.COMPLETED, "breaks": StepStatus.CANCELLED}


async def test_a_thread_that_another_run_took_over_does_not_concern_the_failed_one(place: Places) -> None:
    broken = Broken()
    async with serving(place, chain(broken, asks), settings=QUICK) as service:
        run = await failed(service)
        broken.mended = True
        await run_to_rest(service, "g", {}, thread_id="t")
        before = await service.run(WS, run.id)
        await service.threads.update(WS, "t", {"log": ["by hand"]}, as_node="asks")
        assert (await service.run(WS, run.id)).version == before.version
        assert (await steps(service, run))["breaks"] is StepStatus.FAILED
