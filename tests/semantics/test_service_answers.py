"""Each question has one accepted answer: a second one is refused, and does not answer a repeated question."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import WS, RunStorage, run_until_idle, serving, wait_until, wait_until_idle

from statewright import START, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition
from statewright.runs import Insert, Run, RunStatus, Signal, Wait, where
from statewright.service import Service, ServiceSettings
from statewright.service.context.service_context import ServiceContext
from statewright.service.operations.inbox import answer_to

pytestmark = pytest.mark.anyio
IDLE = ServiceSettings(poll_interval=600, drain=0.2)
"""Workers look for work only when they are notified."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def await_payment(state: State) -> State:
    return {"log": [wait_for_event("paid")["by"]]}


def await_shipment(state: State) -> State:
    return {"log": [wait_for_event("paid")["by"] + " too"]}


def ask(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def graph_of(*nodes: Any, is_parallel: bool = False) -> StateGraph:
    graph, before = StateGraph(State, name="g"), START
    for node in nodes:
        graph.add_node(node).add_edge(START if is_parallel else before, node.__name__)
        before = node.__name__
    return graph


async def waits_of(service: Service, run: Run) -> dict[str, Wait]:
    waits = await aresolve(service.context.ledger.find(Wait, where(run_id=run.id)))
    return {wait.step_name: wait for wait in waits}


def hold_workers(service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep workers from claiming runs until the returned function is called."""
    ledger: Any = service.context.ledger
    claim = ledger.claim

    def claim_nothing(*_: Any) -> list[Run]:
        return []

    monkeypatch.setattr(ledger, "claim", claim_nothing)

    def release() -> None:
        monkeypatch.setattr(ledger, "claim", claim)
        service.wake_background_tasks()

    return release


async def send(service: Service, run: Run, form: str, by: str) -> None:
    if form == "signal":
        await service.signal(WS, run.id, "paid", {"by": by}, must_wait=True)
    elif form == "plain signal":
        await service.signal(WS, run.id, "paid", {"by": by})
    elif form == "event":
        await service.send_event(WS, "paid", {"by": by})
    else:
        await service.answer(WS, run.id, {(await waits_of(service, run))["await_payment"].id: {"by": by}})


@pytest.mark.parametrize("second", ["signal", "answer"])
@pytest.mark.parametrize("first", ["signal", "plain signal", "answer", "event"])
async def test_a_wait_for_an_event_takes_only_one_answer(
    run_storage: RunStorage, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(run_storage, graph_of(await_payment), settings=IDLE) as service:
        run = await run_until_idle(service, "g", {})
        release = hold_workers(service, monkeypatch)
        await send(service, run, first, "first")
        with pytest.raises(InvalidTransition):
            await send(service, run, second, "second")
        release()
        done = await wait_until(lambda: _completed(service, run))
        assert done.output == {"log": ["first"]}
        assert await aresolve(service.context.ledger.count(Signal, where(run_id=run.id, taken=False))) == 0


@pytest.mark.parametrize("form", ["signal", "answer"])
async def test_an_answer_between_the_read_and_the_write_of_another_is_detected(
    run_storage: RunStorage, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(run_storage, graph_of(await_payment), settings=IDLE) as service:
        run = await run_until_idle(service, "g", {})
        release, write = hold_workers(service, monkeypatch), ServiceContext.write
        rival = {"signal": "answer", "answer": "signal"}[form]

        async def write_after_rival(context: ServiceContext, changes: Any) -> None:
            monkeypatch.setattr(ServiceContext, "write", write)
            await send(service, run, rival, "first")
            await write(context, changes)

        monkeypatch.setattr(ServiceContext, "write", write_after_rival)
        with pytest.raises(InvalidTransition):
            await send(service, run, form, "second")
        release()
        assert (await wait_until(lambda: _completed(service, run))).output == {"log": ["first"]}


async def test_a_signal_goes_to_the_unanswered_wait_for_its_type(
    run_storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(
        run_storage, graph_of(await_payment, await_shipment, is_parallel=True), settings=IDLE
    ) as service:
        run = await run_until_idle(service, "g", {})
        release = hold_workers(service, monkeypatch)
        await send(service, run, "answer", "answer")
        await send(service, run, "signal", "signal")
        with pytest.raises(InvalidTransition):
            await send(service, run, "signal", "late")
        release()
        done = await wait_until(lambda: _completed(service, run))
        assert sorted(done.output["log"]) == ["answer", "signal too"]


async def test_an_event_wakes_only_runs_without_an_answer(
    run_storage: RunStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(run_storage, graph_of(await_payment), settings=IDLE) as service:
        first, second = [await run_until_idle(service, "g", {}) for _ in range(2)]
        release = hold_workers(service, monkeypatch)
        await send(service, first, "answer", "answer")
        event = await service.send_event(WS, "paid", {"by": "event"})
        assert event.woken == [second.id]
        release()
        assert (await wait_until(lambda: _completed(service, first))).output == {"log": ["answer"]}
        assert (await wait_until(lambda: _completed(service, second))).output == {"log": ["event"]}


@pytest.mark.parametrize("node", [ask, await_payment])
async def test_an_unused_answer_does_not_answer_a_repeated_question(run_storage: RunStorage, node: Any) -> None:
    """Such an answer may come from an older version, which kept a second answer next to the first."""
    async with serving(run_storage, graph_of(node, await_shipment), settings=IDLE) as service:
        run = await run_until_idle(service, "g", {}, thread_id="t")
        asked_at = (await service.threads.state(WS, "t"))["checkpointId"]
        (wait,) = (await waits_of(service, run)).values()
        now = service.clock.now()
        await service.answer(WS, run.id, {wait.id: {"by": "answer"}})
        await wait_until(lambda: _waits_for(service, run, "await_shipment"))
        late = answer_to(wait, {"by": "late"}, now)
        late.key = None
        await service.context.write([Insert(late)])
        await service.threads.fork(WS, "t", asked_at)
        await wait_until(lambda: _waits_for(service, run, wait.step_name))
        again = await wait_until_idle(service, run)
        assert again.status is RunStatus.WAITING
        assert list(await waits_of(service, run)) == [wait.step_name]
        await service.answer(WS, run.id, {wait.id: {"by": "repeated"}})
        await wait_until(lambda: _waits_for(service, run, "await_shipment"))
        (answer,) = (await service.threads.state(WS, "t"))["values"]["log"]
        assert answer in ("repeated", {"by": "repeated"})


async def _completed(service: Service, run: Run) -> Run | None:
    current = await service.run(WS, run.id)
    assert current.status is not RunStatus.FAILED, current.error
    return current if current.status is RunStatus.COMPLETED else None


async def _waits_for(service: Service, run: Run, step: str) -> bool:
    current = await service.run(WS, run.id)
    return (
        current.status is RunStatus.WAITING and current.claim is None and list(await waits_of(service, run)) == [step]
    )
