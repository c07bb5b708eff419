"""Starting runs: which other parts of the service are woken."""

from __future__ import annotations

import pytest

from statewright import END, START, StateGraph
from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver
from statewright.runs import Insert, Ledger
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.requests import StartRun
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.launch import LaunchOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_only_a_run_with_a_deadline_wakes_the_background_tasks(ledger: Ledger) -> None:
    graph = StateGraph(dict, name="report")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    catalog, clock = Catalog(), FakeClock()
    catalog.serve("report", graph)
    await aresolve(ledger.write([Insert(item) for item in catalog.to_records(clock.now())]))
    context = ServiceContext(ledger, InMemorySaver(), catalog, clock, ServiceSettings())
    woken: list[str] = []
    context.wake_background = lambda: woken.append("background")
    context.wake_worker = lambda: woken.append("worker")
    operations = LaunchOperations(context)
    await operations.start("default", StartRun(graph="report"))
    assert woken == ["worker"]
    await operations.start("default", StartRun(graph="report", timeout=60))
    assert woken == ["worker", "worker", "background"]
