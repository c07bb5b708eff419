"""Following the events of a run, and waiting until it has settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import NotFound
from statewright.runs import Advance, Insert, Ledger, NewEvent, Run, RunStatus
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.following.follow import BATCH_SIZE, follow, wait_until_settled
from statewright.service.following.run_watch import RunWatch
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def context(storage: tuple[Ledger, Checkpointer]) -> ServiceContext:
    return ServiceContext(*storage, Catalog(), FakeClock(), ServiceSettings(max_payload=1000))


async def add_events(context: ServiceContext, run: Run, *kinds: str, published: bool = True, **values: Any) -> None:
    """Add events to the log of a run, and publish them to the listeners of this process if requested."""
    change = Advance(run.id, context.now(), values, [NewEvent(kind, {}) for kind in kinds])
    await (context.write([change]) if published else aresolve(context.ledger.write([change])))


async def test_events_are_followed_until_the_run_ends(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await context.write([Insert(run)])
    await add_events(context, run, "A", "B")

    async def read_after(after: int) -> list[int]:
        return [event.seq async for event in follow(context, run.id, after)]

    following = [asyncio.create_task(read_after(after)) for after in (0, 1, 3)]
    await asyncio.sleep(0.01)
    await add_events(context, run, "C")
    await add_events(context, run, "D")
    await add_events(context, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED)
    assert await asyncio.gather(*following) == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [4, 5]]
    assert await read_after(5) == await read_after(99) == []
    assert context.hub.listener_count == 0


async def test_events_of_another_process_between_local_events_are_not_skipped(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await context.write([Insert(run)])
    await add_events(context, run, "A")
    seen: list[int] = []

    async def collect() -> None:
        async for event in follow(context, run.id, 0):
            seen.append(event.seq)

    following = asyncio.create_task(collect())
    await asyncio.sleep(0.05)
    for kind in ("B", "C", "D"):
        await add_events(context, run, kind, published=False)
    _, local, _, later = await aresolve(context.ledger.events(run.id))
    context.hub.publish([local])
    context.hub.publish([later])
    await add_events(context, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED)
    await following
    assert seen == [1, 2, 3, 4, 5]


async def test_a_retried_run_is_followed_beyond_its_failure(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await context.write([Insert(run)])
    await add_events(context, run, "WORKFLOW_FAILED", "WORKFLOW_RETRIED", status=RunStatus.RUNNING)
    following = asyncio.create_task(read_types(context, run))
    await asyncio.sleep(0.01)
    await add_events(context, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED)
    assert await following == ["WORKFLOW_FAILED", "WORKFLOW_RETRIED", "WORKFLOW_COMPLETED"]


async def read_types(context: ServiceContext, run: Run) -> list[str]:
    return [event.type async for event in follow(context, run.id, 0)]


async def test_a_log_longer_than_a_batch_is_read_completely(
    context: ServiceContext, new_run: Callable[..., Run]
) -> None:
    run = new_run()
    await context.write([Insert(run)])
    await add_events(context, run, *["A"] * (2 * BATCH_SIZE + 20))
    await add_events(context, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED)
    context.watch = RunWatch(context.ledger, every=3600)  # never polls: all stored events must be read without a wait
    async with asyncio.timeout(600):
        assert len(await read_types(context, run)) == 2 * BATCH_SIZE + 21


@pytest.mark.parametrize(
    ("status", "due", "claim", "has_settled"),
    [
        (RunStatus.PENDING, 0, None, False),
        (RunStatus.RUNNING, None, "c", False),
        (RunStatus.WAITING, None, None, True),
        (RunStatus.WAITING, 60, None, True),
        (RunStatus.WAITING, 0, None, False),
        (RunStatus.WAITING, None, "c", False),
        (RunStatus.PAUSED, None, None, True),
        (RunStatus.FAILED, None, None, True),
    ],
)
async def test_waiting_ends_when_a_run_has_settled(
    context: ServiceContext,
    new_run: Callable[..., Run],
    status: RunStatus,
    due: int | None,
    claim: str | None,
    has_settled: bool,
) -> None:
    due_at = context.now() + timedelta(seconds=due) if due is not None else None
    run = new_run(status=status, due_at=due_at, claim=claim)
    await context.write([Insert(run)])
    waiting = asyncio.create_task(wait_until_settled(context, "default", run.id, 3600))
    if not has_settled:
        await asyncio.sleep(0.02)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return
    assert (await asyncio.wait_for(waiting, 600)).status is status


async def test_waiting_ends_after_its_timeout(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run(status=RunStatus.RUNNING, claim="c")
    await context.write([Insert(run)])
    result = await asyncio.wait_for(wait_until_settled(context, "default", run.id, 0.02), 600)
    assert result.status is RunStatus.RUNNING


async def test_a_settled_run_ends_the_wait_at_once(context: ServiceContext, new_run: Callable[..., Run]) -> None:
    run = new_run(status=RunStatus.RUNNING, claim="c")
    await context.write([Insert(run)])
    waiting = asyncio.create_task(wait_until_settled(context, "default", run.id, 3600))
    await asyncio.sleep(0.01)
    await add_events(context, run, "WORKFLOW_COMPLETED", status=RunStatus.COMPLETED, claim=None)
    assert (await waiting).status is RunStatus.COMPLETED
    with pytest.raises(NotFound):
        await wait_until_settled(context, "other", run.id, 0)
