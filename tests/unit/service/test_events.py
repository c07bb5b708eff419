"""Events sent to a workspace: they start what triggers name, and wake what waits for them, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from tests.unit.service.conftest import Overtaken

from statewright import END, START, StateGraph
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest, NotFound, PayloadTooLarge
from statewright.runs import Delete, Insert, Ledger, Run, RunStatus, Signal, Trigger, Update, Wait, where
from statewright.service.catalog import Catalog
from statewright.service.desk import ServiceContext
from statewright.service.events import Events
from statewright.service.settings import ServiceSettings
from statewright.service.starting import Starter
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def desk(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


async def events(desk: ServiceContext) -> Events:
    graph = StateGraph(dict, name="report")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    desk.catalog.serve("report", graph)
    await desk.write([Insert(one) for one in desk.catalog.stored(desk.now())])
    return Events(desk, Starter(desk.ledger, desk.catalog, desk.clock, desk.settings))


def wait(run: Run, name: str, desk: ServiceContext, number: int) -> Wait:
    given: Any = {"workspace_id": run.workspace_id, "step_id": "s", "step_name": "s", "created_at": desk.now()}
    identity = f"{run.id}/{number}"
    return Wait(id=identity, interrupt_id=identity, run_id=run.id, kind="event", event=name, **given)


def trigger(desk: ServiceContext, identity: str = "trg_1", graph: str = "report", **more: Any) -> Trigger:
    given: Any = {"workspace_id": "default", "event": "paid", "created_at": desk.now(), **more}
    return Trigger(id=identity, graph=graph, **given)


async def test_an_event_wakes_what_waits_and_starts_what_is_named(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    book, run, other = await events(desk), new_run(status=RunStatus.WAITING), new_run(status=RunStatus.WAITING)
    waits = [wait(run, "paid", desk, 1), wait(run, "paid", desk, 2), wait(other, "sent", desk, 1)]
    strangers = new_run(workspace_id="other", status=RunStatus.WAITING)
    rest = [trigger(desk), trigger(desk, "trg_2", active=False), strangers, wait(strangers, "paid", desk, 1)]
    await desk.write([Insert(one) for one in (run, other, *waits, *rest)])
    event = await book.send("default", "paid", {"a": 1}, key="k")
    assert event.woken == [run.id]
    assert [one.run_id for one in await aresolve(desk.ledger.find(Signal))] == [run.id]
    [started] = [await desk.records.run("default", one) for one in event.started]
    assert (started.graph, started.status) == ("report", RunStatus.PENDING)
    assert (await desk.records.run("default", run.id)).due_at == desk.now()
    again = await book.send("default", "paid", {"a": 2}, key="k")
    assert (again.id, again.payload) == (event.id, {"a": 1})
    assert await aresolve(desk.ledger.count(Signal)) == 1


@pytest.mark.parametrize("name", ["", "x" * 256, "__run_ended:run_1"])
async def test_names_that_cannot_be_are_refused(desk: ServiceContext, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await (await events(desk)).send("default", name, {})


async def test_payloads_are_maps_with_a_largest(desk: ServiceContext) -> None:
    book = await events(desk)
    with pytest.raises(InvalidRequest):
        await book.send("default", "paid", ["a"])
    with pytest.raises(PayloadTooLarge):
        await book.send("default", "paid", {"a": "x" * 2000})


async def test_an_event_whose_trigger_leads_nowhere_does_nothing_at_all(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    book, run = await events(desk), new_run(status=RunStatus.WAITING)
    await desk.write([Insert(one) for one in (run, wait(run, "paid", desk, 1), trigger(desk, graph="reprot"))])
    with pytest.raises(NotFound, match="reprot"):
        await book.send("default", "paid", {}, key="k")
    assert await aresolve(desk.ledger.count(Signal)) == 0


async def test_a_run_whose_wait_has_just_ended_is_not_woken_and_the_others_are(
    desk: ServiceContext, new_run: Callable[..., Run]
) -> None:
    book, late, run = await events(desk), new_run(status=RunStatus.WAITING), new_run(status=RunStatus.WAITING)
    over = wait(late, "paid", desk, 1)
    await desk.write([Insert(one) for one in (late, run, over, wait(run, "paid", desk, 1), trigger(desk))])
    lapsed = [Delete(Wait, where(id=over.id)), Update(Run, late.id, {"status": RunStatus.RUNNING})]
    desk.ledger = cast(Any, Overtaken(desk.ledger, *lapsed))
    event = await book.send("default", "paid", {"a": 1})
    assert (event.woken, len(event.started)) == ([run.id], 1)
    assert [one.run_id for one in await aresolve(desk.ledger.find(Signal))] == [run.id]
    assert await aresolve(desk.ledger.count(Run, where(source=f"event:{event.id}"))) == 1
