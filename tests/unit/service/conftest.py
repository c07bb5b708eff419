"""Fixtures for the tests of the service: ledgers, and records of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import STORAGES, empty_database

from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.ids import new_checkpoint_id
from statewright.runs import InMemoryLedger, Ledger, Run
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday."""


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, Checkpointer]]:
    """Yield a ledger and the saver of the same database."""
    match request.param:
        case "memory":
            yield InMemoryLedger(), InMemorySaver()
        case "sqlite":
            with SqliteDatabase(tmp_path / "runs.db") as database:
                yield SqliteLedger(database), SqliteSaver(database)
        case _:
            from statewright.storage.postgres import PostgresLedger, PostgresSaver

            yield PostgresLedger(empty_database()), PostgresSaver(empty_database())


@pytest.fixture
def ledger(storage: tuple[Ledger, Checkpointer]) -> Ledger:
    return storage[0]


@pytest.fixture
def saver(storage: tuple[Ledger, Checkpointer]) -> Checkpointer:
    return storage[1]


@pytest.fixture
def ask() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that calls a method of a ledger or a saver on an event loop, and returns its result."""

    def call_and_wait(call: Callable[[], Any]) -> Any:
        async def result() -> Any:
            return await aresolve(call())

        return asyncio.run(result())

    return call_and_wait


@pytest.fixture
def new_run() -> Callable[..., Run]:
    """Return a function that creates records of runs, each with a unique id."""

    def build_run(**values: Any) -> Run:
        run_id = values.pop("id", f"run_{new_checkpoint_id()}")
        columns = {"workspace_id": "default", "graph": "report", "thread_id": run_id, "created_at": NOW, **values}
        return Run(id=run_id, updated_at=columns["created_at"], **columns)

    return build_run


class Overtaken:
    """A ledger to which another process writes changes just before the next write."""

    def __init__(self, ledger: Any, *changes: Any) -> None:
        self._ledger, self._changes = ledger, changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Any) -> Any:
        earlier, self._changes = self._changes, ()
        if earlier:
            future = self._ledger.write(list(earlier))
            if future is not None:
                future.result()
        return self._ledger.write(changes)
