"""All followed runs share one poll, which reads nothing else while nothing happens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver
from statewright.clock import SystemClock
from statewright.errors import StorageUnavailable
from statewright.runs import Advance, Delete, InMemoryLedger, Insert, NewEvent, Run, RunStatus, where
from statewright.service import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.following.follow import follow, wait_until_settled
from statewright.service.following.run_watch import RunWatch

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class CountingLedger(InMemoryLedger):
    """A ledger that counts queries, and can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: Counter[str] = Counter()
        self.fails = False

    def events(self, *args: Any, **options: Any) -> Any:
        self.queries["events"] += 1
        return super().events(*args, **options)

    def get(self, *args: Any, **options: Any) -> Any:
        self.queries["get"] += 1
        return super().get(*args, **options)

    def groups(self, *args: Any, **options: Any) -> Any:
        self.queries["groups"] += 1
        if self.fails:
            raise StorageUnavailable("injected")
        return super().groups(*args, **options)


@pytest.fixture
def ledger() -> CountingLedger:
    return CountingLedger()


@pytest.fixture
def context(ledger: CountingLedger) -> ServiceContext:
    context = ServiceContext(ledger, InMemorySaver(), Catalog(), SystemClock(), ServiceSettings())
    context.watch = RunWatch(ledger, every=0.002)
    return context


async def write_from_another_process(ledger: Any, run: Run, *events: str, **values: Any) -> None:
    """Change a run without publishing that to the hub."""
    await aresolve(ledger.write([Advance(run.id, run.created_at, values, [NewEvent(event, {}) for event in events])]))


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(600):
        while not condition():
            await asyncio.sleep(0.001)


async def test_idle_followers_share_one_query(
    ledger: CountingLedger, context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    runs = [new_run(id=f"run_{number}") for number in range(50)]
    await aresolve(ledger.write([Insert(run) for run in runs]))
    streams: list[Any] = [follow(context, run.id, 0) for run in runs]
    readers = [asyncio.create_task(anext(stream)) for stream in streams]
    await wait_until(lambda: context.hub.listener_count == 50 and ledger.queries["groups"] >= 3)
    before = ledger.queries.copy()
    await wait_until(lambda: ledger.queries["groups"] >= before["groups"] + 20)
    queries_while_idle = ledger.queries - before
    assert (queries_while_idle["events"], queries_while_idle["get"]) == (0, 0)
    await write_from_another_process(ledger, runs[7], "STEP_STARTED")
    event = await readers[7]
    assert (event.run_id, event.seq) == ("run_7", 1)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    await asyncio.gather(*(stream.aclose() for stream in streams))
    await wait_until(lambda: not any("_keep_looking" in repr(task) for task in asyncio.all_tasks()))


@pytest.mark.parametrize("after", [0, 1, 99])
async def test_a_stream_ends_when_another_process_has_ended_the_run(
    ledger: CountingLedger, context: ServiceContext, new_run: Callable[..., Run], after: int
) -> None:
    run = new_run()
    await aresolve(ledger.write([Insert(run)]))
    await write_from_another_process(ledger, run, "WORKFLOW_STARTED")

    async def read() -> list[str]:
        return [event.type async for event in follow(context, run.id, after)]

    reading = asyncio.create_task(read())
    await wait_until(lambda: ledger.queries["groups"] >= 3)
    ledger.fails = True
    await write_from_another_process(ledger, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED)
    ledger.fails = False
    expected = ["WORKFLOW_STARTED", "WORKFLOW_COMPLETED"]
    assert await asyncio.wait_for(reading, 600) == expected[after:]


async def test_a_stream_ends_when_its_run_is_deleted(
    ledger: CountingLedger, context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await aresolve(ledger.write([Insert(run)]))
    reading = asyncio.create_task(anext(follow(context, run.id, 0), None))
    await wait_until(lambda: ledger.queries["groups"] >= 3)
    await aresolve(ledger.write([Delete(Run, where(id=run.id))]))
    assert await asyncio.wait_for(reading, 600) is None


async def test_a_wait_ends_when_another_process_ends_the_run(
    ledger: CountingLedger, context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run(status=RunStatus.RUNNING, claim="c", worker_id="other")
    await aresolve(ledger.write([Insert(run)]))
    waiting = asyncio.create_task(wait_until_settled(context, run.workspace_id, run.id, 60))
    await wait_until(lambda: ledger.queries["groups"] >= 3)
    await write_from_another_process(ledger, run, status=RunStatus.PAUSED, claim=None)
    assert (await asyncio.wait_for(waiting, 600)).status is RunStatus.PAUSED
