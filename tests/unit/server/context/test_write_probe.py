"""The probe writes at most once every few seconds, and never waits for long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from statewright.async_futures import aresolve
from statewright.errors import StorageFull
from statewright.futures import LightFuture
from statewright.runs import InMemoryLedger, Ledger, Worker
from statewright.server.context.server_context import WriteProbe
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger


def now() -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC)


class ReadOnlyLedger(InMemoryLedger):
    """A ledger that can be read, and refuses writes."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer, self.writes = answer, 0

    def write(self, changes: Any) -> Any:
        self.writes += 1
        return self.answer()


def full() -> Any:
    raise StorageFull("no room")


@pytest.mark.parametrize("answer", [full, LightFuture], ids=["full", "hangs"])
def test_a_database_that_refuses_writes_is_detected(answer: Any) -> None:
    assert not asyncio.run(WriteProbe(ReadOnlyLedger(answer), now, timeout=0.01).succeeds())


def test_many_calls_cost_one_write() -> None:
    async def run() -> None:
        ledger = ReadOnlyLedger(lambda: None)
        probe = WriteProbe(ledger, now, cache_time=3600)
        assert all(await asyncio.gather(*(probe.succeeds() for _ in range(20))))
        assert ledger.writes == 1
        probe = WriteProbe(ledger, now, cache_time=0)
        assert [await probe.succeeds(), await probe.succeeds(), ledger.writes] == [True, True, 3]

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_probe_leaves_no_record(kind: str, tmp_path: Path) -> None:
    async def run(ledger: Ledger) -> None:
        assert await WriteProbe(ledger, now).succeeds()
        assert list(await aresolve(ledger.find(Worker))) == []

    if kind == "memory":
        asyncio.run(run(InMemoryLedger()))
        return
    with SqliteDatabase(tmp_path / "runs.db") as database:
        asyncio.run(run(SqliteLedger(database)))
