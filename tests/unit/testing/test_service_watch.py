"""How a test service watches the work of its service."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver
from statewright.events import Event
from statewright.runs import InMemoryLedger, Insert, Ledger, Worker
from statewright.testing import FakeClock, LedgerConformance
from statewright.testing.service.watch import TaskWatch, WatchedLedger, WatchedTask

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_watched_ledger_counts_writes_and_claims() -> None:
    async def use() -> None:
        ledger = WatchedLedger(InMemoryLedger())
        worker = Worker(
            id="w", place="p", pid=1, process_started="", capacity=1, until=NOW + timedelta(1), started_at=NOW
        )
        await aresolve(ledger.write([Insert(worker)]))
        assert (ledger.writes, ledger.claims, ledger.last_answered_claim) == (1, 0, 0)
        assert await aresolve(ledger.claim("w", NOW, 1)) == []
        assert (ledger.writes, ledger.claims, ledger.last_answered_claim) == (1, 1, 1)
        assert await aresolve(ledger.get(Worker, "w")) == worker
        assert await aresolve(ledger.count(Worker)) == 1

    asyncio.run(use())


class TestWatchedLedger(LedgerConformance):
    """It implements the port like the ledger that it watches."""

    def make_ledger(self) -> WatchedLedger:
        return WatchedLedger(InMemoryLedger())

    def make_saver(self, ledger: Ledger) -> InMemorySaver:
        return InMemorySaver()


def event(kind: Any, task: str, data: Any = None) -> Event:
    result = Event(kind, data, run_id="r", node="n")
    result.task = SimpleNamespace(id=task)
    return result


def test_a_task_is_running_until_it_finishes_or_its_run_restarts() -> None:
    clock = FakeClock()
    watch = TaskWatch(clock)
    watch.on_task_started(event("task_started", "1"))
    watch.on_task_started(event("task_started", "2"))
    watch.on_task_finished(event("task_finished", "1"))
    watch.on_attempt_failed(event("attempt_failed", "2", (ValueError(), 60.0)))
    watch.on_attempt_failed(event("attempt_failed", "3", (ValueError(), 60.0)))  # an unknown task
    assert [(task.node, task.next_attempt_at) for task in watch.running(["r"])] == [("n", clock.monotonic() + 60)]
    assert watch.running(["other"]) == []
    watch.on_run_started(event("run_started", ""))
    assert watch.running(["r"]) == []
    assert watch.event_count == 6


class Sweeper:
    def __init__(self) -> None:
        self.closed = False

    async def sweep(self, now: datetime) -> datetime | None:
        if now != NOW:
            raise ValueError("not now")
        return None

    async def close(self) -> None:
        self.closed = True


def test_a_sweep_counts_as_ended_even_if_it_fails() -> None:
    async def use() -> None:
        inner = Sweeper()
        watched = WatchedTask(inner)
        assert (watched.started, watched.ended) == (0, 0)
        await watched.sweep(NOW)
        assert (watched.started, watched.ended) == (1, 1)
        with pytest.raises(ValueError, match="not now"):
            await watched.sweep(NOW + timedelta(1))
        assert (watched.started, watched.ended) == (2, 2)
        await watched.close()
        assert inner.closed

    asyncio.run(use())
