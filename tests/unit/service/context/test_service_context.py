"""Written changes are published to listeners, the worker and the background tasks."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from statewright.checkpoint import Checkpointer
from statewright.errors import RecordConflict
from statewright.runs import (
    Advance,
    Announce,
    Change,
    Condition,
    Insert,
    Ledger,
    NewEvent,
    Run,
    RunStatus,
    Update,
    UpdateAll,
    Wait,
    Webhook,
    where,
)
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class ContextBench:
    """A context that records what it wakes."""

    def __init__(self, storage: tuple[Ledger, Checkpointer]) -> None:
        self.woken: list[str] = []
        self.clock = FakeClock()
        self.context = ServiceContext(*storage, Catalog(), self.clock, ServiceSettings())
        self.context.wake_worker = lambda: self.woken.append("worker")
        self.context.wake_background = lambda: self.woken.append("background")

    async def write(self, *changes: Change) -> set[str]:
        """Write changes, and return what they woke."""
        self.woken.clear()
        await self.context.write(changes)
        return set(self.woken)


@pytest.fixture
def bench(storage: tuple[Ledger, Checkpointer]) -> ContextBench:
    return ContextBench(storage)


async def test_the_time_comes_from_the_clock(bench: ContextBench) -> None:
    bench.clock.advance(5)
    assert bench.context.now() == bench.clock.now()


async def test_the_worker_is_woken_by_changes_that_may_make_a_run_due(
    bench: ContextBench, new_run: Callable[..., Run]
) -> None:
    run, now = new_run(), bench.context.now()
    assert await bench.write(Insert(run)) == {"worker"}
    assert await bench.write(Advance(run.id, now, {"due_at": now})) == {"worker"}
    assert await bench.write(UpdateAll(Run, where(id=run.id), {"due_at": now})) == {"worker"}
    assert await bench.write(Advance(run.id, now, {"status": RunStatus.CANCELLED, "due_at": None})) == {"worker"}


async def test_other_changes_do_not_wake_anything(bench: ContextBench, new_run: Callable[..., Run]) -> None:
    run, now = new_run(), bench.context.now()
    wait = Wait(id="w", run_id=run.id, interrupt_id="i", workspace_id="default", step_id="s", step_name="s",
                kind="question", created_at=now)  # fmt: skip
    await bench.write(Insert(run))
    changes: list[Change] = [
        Insert(wait),
        Update(Wait, "w", {"value": 1}),
        UpdateAll(Wait, where(id="w"), {"due_at": now}),
        UpdateAll(Run, where(id=run.id), {"due_at": None}),
        Advance(run.id, now, {"due_at": None}, [NewEvent("X", {})]),
    ]
    for item in changes:
        assert await bench.write(item) == set(), item


async def test_announcements_wake_the_background_tasks_if_there_is_a_webhook(bench: ContextBench) -> None:
    now = bench.context.now()
    assert await bench.write(Announce("default", "workflow.failed", {}, now)) == set()
    fields: dict[str, Any] = {"workspace_id": "default", "url": "https://example.com", "secret": "s"}
    await bench.write(Insert(Webhook(id="wh", events=["workflow.failed"], created_at=now, **fields)))
    assert await bench.write(Announce("default", "workflow.completed", {}, now)) == set()
    assert await bench.write(Announce("default", "workflow.failed", {}, now)) == {"background"}


async def test_listeners_receive_events_with_their_numbers(bench: ContextBench, new_run: Callable[..., Run]) -> None:
    run, other = new_run(), new_run()
    await bench.write(Insert(run), Insert(other))
    with bench.context.hub.listening(run.id) as listener:
        for target, kinds in ((run, ["A", "B"]), (other, ["X"]), (run, ["C"])):
            await bench.write(Advance(target.id, bench.context.now(), {}, [NewEvent(kind, {}) for kind in kinds]))
        events = bench.context.hub.take_events(listener)
    assert [(event.type, event.seq) for event in events] == [("A", 1), ("B", 2), ("C", 3)]  # type: ignore[union-attr]


async def test_refused_changes_are_not_published(bench: ContextBench, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await bench.write(Insert(run))
    late = bench.context.now() + timedelta(days=1)
    change = Advance(run.id, late, {"due_at": late}, [NewEvent("A", {})], [Condition("version", "=", 99)])
    with bench.context.hub.listening(run.id) as listener:
        with pytest.raises(RecordConflict):
            await bench.write(change)
        assert (bench.woken, bench.context.hub.take_events(listener)) == ([], [])
