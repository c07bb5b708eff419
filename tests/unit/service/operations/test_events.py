"""Events sent to a workspace start the runs of triggers and wake waiting runs, once."""

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
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.events import EventOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


async def events(context: ServiceContext) -> EventOperations:
    graph = StateGraph(dict, name="report")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    context.catalog.serve("report", graph)
    await context.write([Insert(item) for item in context.catalog.to_records(context.now())])
    return EventOperations(context)


def wait(run: Run, name: str, context: ServiceContext, number: int) -> Wait:
    fields: Any = {"workspace_id": run.workspace_id, "step_id": "s", "step_name": "s", "created_at": context.now()}
    wait_id = f"{run.id}/{number}"
    return Wait(id=wait_id, interrupt_id=wait_id, run_id=run.id, kind="event", event=name, **fields)


def trigger(context: ServiceContext, record_id: str = "trg_1", graph: str = "report", **more: Any) -> Trigger:
    fields: Any = {"workspace_id": "default", "event": "paid", "created_at": context.now(), **more}
    return Trigger(id=record_id, graph=graph, **fields)


async def test_an_event_wakes_waiting_runs_and_starts_the_runs_of_triggers(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    operations, run, other = await events(context), new_run(status=RunStatus.WAITING), new_run(status=RunStatus.WAITING)
    waits = [wait(run, "paid", context, 1), wait(run, "paid", context, 2), wait(other, "sent", context, 1)]
    foreign_run = new_run(workspace_id="other", status=RunStatus.WAITING)
    others = [
        trigger(context),
        trigger(context, "trg_2", active=False),
        foreign_run,
        wait(foreign_run, "paid", context, 1),
    ]
    await context.write([Insert(item) for item in (run, other, *waits, *others)])
    event = await operations.send_event("default", "paid", {"a": 1}, key="k")
    assert event.woken == [run.id]
    assert [signal.run_id for signal in await aresolve(context.ledger.find(Signal))] == [run.id]
    [started] = [await context.records.run("default", item) for item in event.started]
    assert (started.graph, started.status) == ("report", RunStatus.PENDING)
    assert (await context.records.run("default", run.id)).due_at == context.now()
    again = await operations.send_event("default", "paid", {"a": 2}, key="k")
    assert (again.id, again.payload) == (event.id, {"a": 1})
    assert await aresolve(context.ledger.count(Signal)) == 1


@pytest.mark.parametrize("name", ["", "x" * 256, "__run_ended:run_1"])
async def test_invalid_names_are_refused(context: ServiceContext, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await (await events(context)).send_event("default", name, {})


async def test_payloads_are_maps_of_limited_size(context: ServiceContext) -> None:
    operations = await events(context)
    with pytest.raises(InvalidRequest):
        await operations.send_event("default", "paid", ["a"])
    with pytest.raises(PayloadTooLarge):
        await operations.send_event("default", "paid", {"a": "x" * 2000})


async def test_an_event_with_an_invalid_trigger_changes_nothing(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    operations, run = await events(context), new_run(status=RunStatus.WAITING)
    await context.write([Insert(row) for row in (run, wait(run, "paid", context, 1), trigger(context, graph="reprot"))])
    with pytest.raises(NotFound, match="reprot"):
        await operations.send_event("default", "paid", {}, key="k")
    assert await aresolve(context.ledger.count(Signal)) == 0


async def test_only_runs_whose_wait_is_still_open_are_woken(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    operations, late, run = await events(context), new_run(status=RunStatus.WAITING), new_run(status=RunStatus.WAITING)
    ended_wait = wait(late, "paid", context, 1)
    await context.write(
        [Insert(item) for item in (late, run, ended_wait, wait(run, "paid", context, 1), trigger(context))]
    )
    changes = [Delete(Wait, where(id=ended_wait.id)), Update(Run, late.id, {"status": RunStatus.RUNNING})]
    context.ledger = cast(Any, Overtaken(context.ledger, *changes))
    event = await operations.send_event("default", "paid", {"a": 1})
    assert (event.woken, len(event.started)) == ([run.id], 1)
    assert [signal.run_id for signal in await aresolve(context.ledger.find(Signal))] == [run.id]
    assert await aresolve(context.ledger.count(Run, where(source=f"event:{event.id}"))) == 1
