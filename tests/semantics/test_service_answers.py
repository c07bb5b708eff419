"""Each question has one accepted answer: a second one is refused, and does not answer a repeated question."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from tests.semantics.on_services import WS, Places, rested, run_to_rest, serving, until

from statewright import START, StateGraph, interrupt, wait_for_event
from statewright.async_futures import aresolve
from statewright.errors import InvalidTransition
from statewright.runs import Insert, Run, RunStatus, Signal, Wait, where
from statewright.service import Service, ServiceSettings
from statewright.service.context.service_context import ServiceContext
from statewright.service.operations.inbox import answer_to

pytestmark = pytest.mark.anyio
IDLE = ServiceSettings(look_every=600, drain=0.2)
"""Nobody looks for work unless a bell rings."""


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def pays(state: State) -> State:
    return {"log": [wait_for_event("paid")["by"]]}


def ships(state: State) -> State:
    return {"log": [wait_for_event("paid")["by"] + " too"]}


def asks(state: State) -> State:
    return {"log": [interrupt("go on?")]}


def graph_of(*nodes: Any, beside: bool = False) -> StateGraph:
    graph, before = StateGraph(State, name="g"), START
    for node in nodes:
        graph.add_node(node).add_edge(START if beside else before, node.__name__)
        before = node.__name__
    return graph


async def waits_of(service: Service, run: Run) -> dict[str, Wait]:
    found = await aresolve(service.context.ledger.find(Wait, where(run_id=run.id)))
    return {wait.step_name: wait for wait in found}


def held_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let no worker take a run until what is answered is called."""
    ledger: Any = service.context.ledger
    claim = ledger.claim

    def nothing(*_: Any) -> list[Run]:
        return []

    monkeypatch.setattr(ledger, "claim", nothing)

    def go_on() -> None:
        monkeypatch.setattr(ledger, "claim", claim)
        service.wake_background_tasks()

    return go_on


async def comes(service: Service, run: Run, way: str, by: str) -> None:
    if way == "signal":
        await service.signal(WS, run.id, "paid", {"by": by}, must_wait=True)
    elif way == "plain signal":
        await service.signal(WS, run.id, "paid", {"by": by})
    elif way == "event":
        await service.send_event(WS, "paid", {"by": by})
    else:
        await service.answer(WS, run.id, {(await waits_of(service, run))["pays"].id: {"by": by}})


@pytest.mark.parametrize("second", ["signal", "answer"])
@pytest.mark.parametrize("first", ["signal", "plain signal", "answer", "event"])
async def test_a_wait_for_an_event_takes_one_answer(
    place: Places, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(place, graph_of(pays), settings=IDLE) as service:
        run = await run_to_rest(service, "g", {})
        go_on = held_back(service, monkeypatch)
        await comes(service, run, first, "first")
        with pytest.raises(InvalidTransition):
            await comes(service, run, second, "second")
        go_on()
        done = await until(lambda: _completed(service, run))
        assert done.output == {"log": ["first"]}
        assert await aresolve(service.context.ledger.count(Signal, where(run_id=run.id, taken=False))) == 0


@pytest.mark.parametrize("way", ["signal", "answer"])
async def test_a_change_between_the_read_and_the_write_of_another_is_detected(
    place: Places, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(place, graph_of(pays), settings=IDLE) as service:
        run = await run_to_rest(service, "g", {})
        go_on, write = held_back(service, monkeypatch), ServiceContext.write
        rival = {"signal": "answer", "answer": "signal"}[way]

        async def overtaken(context: ServiceContext, changes: Any) -> None:
            monkeypatch.setattr(ServiceContext, "write", write)
            await comes(service, run, rival, "first")
            await write(context, changes)

        monkeypatch.setattr(ServiceContext, "write", overtaken)
        with pytest.raises(InvalidTransition):
            await comes(service, run, way, "second")
        go_on()
        assert (await until(lambda: _completed(service, run))).output == {"log": ["first"]}


async def test_a_signal_goes_to_the_wait_for_its_type_that_has_no_answer(
    place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(place, graph_of(pays, ships, beside=True), settings=IDLE) as service:
        run = await run_to_rest(service, "g", {})
        go_on = held_back(service, monkeypatch)
        await comes(service, run, "answer", "answer")
        await comes(service, run, "signal", "signal")
        with pytest.raises(InvalidTransition):
            await comes(service, run, "signal", "late")
        go_on()
        done = await until(lambda: _completed(service, run))
        assert sorted(done.output["log"]) == ["answer", "signal too"]


async def test_an_event_goes_to_runs_that_have_no_answer(place: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(place, graph_of(pays), settings=IDLE) as service:
        one, other = [await run_to_rest(service, "g", {}) for _ in range(2)]
        go_on = held_back(service, monkeypatch)
        await comes(service, one, "answer", "answer")
        event = await service.send_event(WS, "paid", {"by": "event"})
        assert event.woken == [other.id]
        go_on()
        assert (await until(lambda: _completed(service, one))).output == {"log": ["answer"]}
        assert (await until(lambda: _completed(service, other))).output == {"log": ["event"]}


@pytest.mark.parametrize("node", [asks, pays])
async def test_an_unused_answer_does_not_answer_a_question_that_is_asked_again(place: Places, node: Any) -> None:
    """However it came into the inbox: an older version kept a second answer beside the first."""
    async with serving(place, graph_of(node, ships), settings=IDLE) as service:
        run = await run_to_rest(service, "g", {}, thread_id="t")
        asked_at = (await service.threads.state(WS, "t"))["checkpointId"]
        (wait,) = (await waits_of(service, run)).values()
        now = service.clock.now()
        await service.answer(WS, run.id, {wait.id: {"by": "answer"}})
        await until(lambda: _waits_for(service, run, "ships"))
        late = answer_to(wait, {"by": "late"}, now)
        late.key = None
        await service.context.write([Insert(late)])
        await service.threads.fork(WS, "t", asked_at)
        await until(lambda: _waits_for(service, run, wait.step_name))
        again = await rested(service, run)
        assert again.status is RunStatus.WAITING
        assert list(await waits_of(service, run)) == [wait.step_name]
        await service.answer(WS, run.id, {wait.id: {"by": "anew"}})
        await until(lambda: _waits_for(service, run, "ships"))
        (said,) = (await service.threads.state(WS, "t"))["values"]["log"]
        assert said in ("anew", {"by": "anew"})


async def _completed(service: Service, run: Run) -> Run | None:
    found = await service.run(WS, run.id)
    assert found.status is not RunStatus.FAILED, found.error
    return found if found.status is RunStatus.COMPLETED else None


async def _waits_for(service: Service, run: Run, step: str) -> bool:
    now = await service.run(WS, run.id)
    return now.status is RunStatus.WAITING and now.claim is None and list(await waits_of(service, run)) == [step]
