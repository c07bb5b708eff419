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


class Rung:
    """A context whose bells are heard."""

    def __init__(self, storage: tuple[Ledger, Checkpointer]) -> None:
        self.heard: list[str] = []
        self.clock = FakeClock()
        self.context = ServiceContext(*storage, Catalog(), self.clock, ServiceSettings())
        self.context.wake_worker = lambda: self.heard.append("worker")
        self.context.wake_background = lambda: self.heard.append("background")

    async def write(self, *changes: Change) -> set[str]:
        """Who is rung by changes."""
        self.heard.clear()
        await self.context.write(changes)
        return set(self.heard)


@pytest.fixture
def rung(storage: tuple[Ledger, Checkpointer]) -> Rung:
    return Rung(storage)


async def test_the_time_is_that_of_the_clock(rung: Rung) -> None:
    rung.clock.advance(5)
    assert rung.context.now() == rung.clock.now()


async def test_the_worker_is_woken_by_changes_that_may_make_a_run_due(rung: Rung, new_run: Callable[..., Run]) -> None:
    run, now = new_run(), rung.context.now()
    assert await rung.write(Insert(run)) == {"worker"}
    assert await rung.write(Advance(run.id, now, {"due_at": now})) == {"worker"}
    assert await rung.write(UpdateAll(Run, where(id=run.id), {"due_at": now})) == {"worker"}
    assert await rung.write(Advance(run.id, now, {"status": RunStatus.CANCELLED, "due_at": None})) == {"worker"}


async def test_other_changes_wake_nobody(rung: Rung, new_run: Callable[..., Run]) -> None:
    run, now = new_run(), rung.context.now()
    wait = Wait(id="w", run_id=run.id, interrupt_id="i", workspace_id="default", step_id="s", step_name="s",
                kind="question", created_at=now)  # fmt: skip
    await rung.write(Insert(run))
    quiet: list[Change] = [
        Insert(wait),
        Update(Wait, "w", {"value": 1}),
        UpdateAll(Wait, where(id="w"), {"due_at": now}),
        UpdateAll(Run, where(id=run.id), {"due_at": None}),
        Advance(run.id, now, {"due_at": None}, [NewEvent("X", {})]),
    ]
    for change in quiet:
        assert await rung.write(change) == set(), change


async def test_announcements_wake_the_background_tasks_if_there_is_a_webhook(rung: Rung) -> None:
    now = rung.context.now()
    assert await rung.write(Announce("default", "workflow.failed", {}, now)) == set()
    given: dict[str, Any] = {"workspace_id": "default", "url": "https://example.com", "secret": "s"}
    await rung.write(Insert(Webhook(id="wh", events=["workflow.failed"], created_at=now, **given)))
    assert await rung.write(Announce("default", "workflow.completed", {}, now)) == set()
    assert await rung.write(Announce("default", "workflow.failed", {}, now)) == {"background"}


async def test_listeners_receive_events_with_their_numbers(rung: Rung, new_run: Callable[..., Run]) -> None:
    run, other = new_run(), new_run()
    await rung.write(Insert(run), Insert(other))
    with rung.context.hub.listening(run.id) as listener:
        for one, kinds in ((run, ["A", "B"]), (other, ["X"]), (run, ["C"])):
            await rung.write(Advance(one.id, rung.context.now(), {}, [NewEvent(kind, {}) for kind in kinds]))
        news = rung.context.hub.take_events(listener)
    assert [(event.type, event.seq) for event in news] == [("A", 1), ("B", 2), ("C", 3)]  # type: ignore[union-attr]


async def test_refused_changes_are_not_published(rung: Rung, new_run: Callable[..., Run]) -> None:
    run = new_run()
    await rung.write(Insert(run))
    late = rung.context.now() + timedelta(days=1)
    moves = Advance(run.id, late, {"due_at": late}, [NewEvent("A", {})], [Condition("version", "=", 99)])
    with rung.context.hub.listening(run.id) as listener:
        with pytest.raises(RecordConflict):
            await rung.write(moves)
        assert (rung.heard, rung.context.hub.take_events(listener)) == ([], [])
