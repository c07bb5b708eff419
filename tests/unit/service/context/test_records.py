"""Reading the records of a workspace, by pages and filters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.clock import SystemClock
from statewright.errors import InvalidRequest, NotFound
from statewright.runs import Insert, Ledger, Run, RunLabel, RunStatus, where
from statewright.service.context.records import MAX_PAGE_SIZE, Records, filter_conditions
from statewright.service.context.requests import RunFilter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def add_runs(ledger: Ledger, new_run: Callable[..., Run], now: datetime) -> Records:
    for n in range(5):
        run = new_run(id=f"run_{n}", created_at=now + timedelta(hours=n), graph="even" if n % 2 == 0 else "odd")
        label = RunLabel(id=f"{run.id}/0", run_id=run.id, name="" if n < 3 else "n", value="red" if n < 3 else f"{n}")
        await aresolve(ledger.write([Insert(run), Insert(label)]))
    return Records(ledger, SystemClock())


async def test_a_record_of_another_workspace_is_not_found(ledger: Ledger, new_run: Any, now: datetime) -> None:
    records = await add_runs(ledger, new_run, now)
    assert (await records.run("default", "run_1")).id == "run_1"
    for workspace, run_id in (("other", "run_1"), ("default", "run_9"), ("", "run_1")):
        with pytest.raises(NotFound, match=run_id):
            await records.run(workspace, run_id)


async def test_pages_are_ordered_newest_first(ledger: Ledger, new_run: Any, now: datetime) -> None:
    records, conditions = await add_runs(ledger, new_run, now), where(workspace_id="default")
    first = await records.page(Run, conditions, page=1, page_size=2)
    last = await records.page(Run, conditions, page=3, page_size=2)
    beyond = await records.page(Run, conditions, page=4, page_size=2)
    assert [run.id for run in first.items] == ["run_4", "run_3"]
    assert ([run.id for run in last.items], list(beyond.items)) == (["run_0"], [])
    assert (first.total, last.total, beyond.total, first.page_size) == (5, 5, 5, 2)


@pytest.mark.parametrize(("page", "size"), [(0, 1), (-1, 1), (1, 0), (1, MAX_PAGE_SIZE + 1)])
async def test_invalid_pages_are_refused(ledger: Ledger, page: int, size: int) -> None:
    with pytest.raises(InvalidRequest, match="Pages start at 1"):
        await Records(ledger, SystemClock()).page(Run, [], page=page, page_size=size)


async def test_all_conditions_of_a_filter_must_match(ledger: Ledger, new_run: Any, now: datetime) -> None:
    await add_runs(ledger, new_run, now)

    async def matching_ids(**values: Any) -> list[str]:
        matching = filter_conditions("default", RunFilter(**values))
        return [run.id for run in await aresolve(ledger.find(Run, matching))]

    assert await matching_ids() == [f"run_{n}" for n in range(5)]
    assert await matching_ids(graph="even", tags=["red"]) == ["run_0", "run_2"]
    assert await matching_ids(metadata={"n": "3"}) == ["run_3"]
    assert await matching_ids(status=[RunStatus.PENDING, RunStatus.FAILED], graph="odd") == ["run_1", "run_3"]
    assert await matching_ids(status=[RunStatus.FAILED]) == []
    assert await matching_ids(created_from=now + timedelta(hours=1), created_to=now + timedelta(hours=3)) == [
        "run_1",
        "run_2",
    ]
    assert await matching_ids(tags=["red", "blue"]) == []
