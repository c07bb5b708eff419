"""Whether writes are taken is looked at with a write, at most once in some seconds, and never for long."""

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
from statewright.server.context.write_probe import WriteProbe
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger


def now() -> datetime:
    return datetime(2026, 1, 2, tzinfo=UTC)


class Ill(InMemoryLedger):
    """Reads, and does not write."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.answer, self.writes = answer, 0

    def write(self, changes: Any) -> Any:
        self.writes += 1
        return self.answer()


def full() -> Any:
    raise StorageFull("no room")


@pytest.mark.parametrize("answer", [full, LightFuture], ids=["full", "hangs"])
def test_a_database_that_takes_no_writes_is_found_out(answer: Any) -> None:
    assert not asyncio.run(WriteProbe(Ill(answer), now, patience=0.01).succeeds())


def test_many_questions_cost_one_write() -> None:
    async def run() -> None:
        ledger = Ill(lambda: None)
        probe = WriteProbe(ledger, now, fresh=3600)
        assert all(await asyncio.gather(*(probe.succeeds() for _ in range(20))))
        assert ledger.writes == 1
        probe = WriteProbe(ledger, now, fresh=0)
        assert [await probe.succeeds(), await probe.succeeds(), ledger.writes] == [True, True, 3]

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_nothing_is_left_of_it(kind: str, tmp_path: Path) -> None:
    async def run(ledger: Ledger) -> None:
        assert await WriteProbe(ledger, now).succeeds()
        assert list(await aresolve(ledger.find(Worker))) == []

    if kind == "memory":
        asyncio.run(run(InMemoryLedger()))
        return
    with SqliteDatabase(tmp_path / "runs.db") as database:
        asyncio.run(run(SqliteLedger(database)))
