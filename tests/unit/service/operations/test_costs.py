"""The costs of single runs, and of periods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver
from statewright.errors import NotFound
from statewright.runs import Insert, Ledger, ModelCall
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.reads import ReadOperations
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def costs(ledger: Ledger, new_run: Any, now: datetime) -> ReadOperations:
    runs = [new_run(id="run_1"), new_run(id="run_2"), new_run(id="run_3", workspace_id="other")]
    calls = [
        ModelCall(
            id=f"{run.id}/{n}", run_id=run.id, workspace_id=run.workspace_id, model="small" if n else "large",
            input_tokens=10, output_tokens=n, cost=0.25, created_at=now + timedelta(hours=n),
        )
        for run in runs for n in range(3)
    ]  # fmt: skip
    await aresolve(ledger.write([Insert(item) for item in (*runs, *calls)]))
    return ReadOperations(ServiceContext(ledger, InMemorySaver(), Catalog(), FakeClock(), ServiceSettings()))


async def test_the_cost_of_a_run_is_the_sum_of_its_model_calls(ledger: Ledger, new_run: Any, now: datetime) -> None:
    result = await (await costs(ledger, new_run, now)).cost("default", "run_1")
    assert (result.total.calls, result.total.cost, result.total.input_tokens, result.total.output_tokens) == (
        3,
        0.75,
        30,
        3,
    )
    assert [(item.name, item.calls, item.cost) for item in result.by_model] == [("large", 1, 0.25), ("small", 2, 0.5)]
    assert [call.id for call in result.calls] == ["run_1/0", "run_1/1", "run_1/2"]


async def test_a_summary_covers_its_period(ledger: Ledger, new_run: Any, now: datetime) -> None:
    operations = await costs(ledger, new_run, now)
    assert (await operations.cost_summary("default", None, None)).total.calls == 6
    part = await operations.cost_summary("default", now + timedelta(hours=1), now + timedelta(hours=2))
    assert (part.total.calls, [item.name for item in part.by_model]) == (2, ["small"])
    assert (await operations.cost_summary("nobody", None, None)).total.calls == 0


async def test_runs_of_other_workspaces_are_not_found(ledger: Ledger, new_run: Any, now: datetime) -> None:
    with pytest.raises(NotFound):
        await (await costs(ledger, new_run, now)).cost("default", "run_3")
