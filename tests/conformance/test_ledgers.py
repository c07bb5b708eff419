"""Every ledger passes the conformance suite: in memory, in a SQLite file, encrypted, and reopened for each call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statewright import InMemorySaver
from statewright.runs import InMemoryLedger, Ledger
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver
from statewright.testing import LedgerConformance


class TestInMemoryLedger(LedgerConformance):
    def make_ledger(self) -> InMemoryLedger:
        return InMemoryLedger()

    def make_saver(self, ledger: Ledger) -> InMemorySaver:
        return InMemorySaver()


class TestSqliteLedger(LedgerConformance):
    options: dict[str, Any] = {}

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        self.databases: list[SqliteDatabase] = []
        yield
        for database in self.databases:
            database.close()

    def open(self) -> SqliteDatabase:
        """Open a new file, since a test may create several ledgers."""
        self.databases.append(SqliteDatabase(self.folder / f"{len(self.databases)}.db", **self.options))
        return self.databases[-1]

    def make_ledger(self) -> Any:
        return SqliteLedger(self.open())

    def make_saver(self, ledger: Any) -> SqliteSaver:
        return SqliteSaver(ledger.database)


@pytest.mark.sampled(3)
class TestEncryptedLedger(TestSqliteLedger):
    options = {"key": bytes(range(32))}


class ReopenedLedger:
    """A ledger whose file is opened anew for each call, so that nothing is cached."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with SqliteLedger(self.path) as ledger:
                return getattr(ledger, name)(*args, **options)

        return call

    def job(self, changes: Any) -> Any:
        with SqliteLedger(self.path) as ledger:
            return ledger.job(changes)


@pytest.mark.sampled(3)
class TestReopenedLedger(TestSqliteLedger):
    def make_ledger(self) -> Any:
        database = self.open()
        return ReopenedLedger(database.path)

    def make_saver(self, ledger: Any) -> SqliteSaver:
        return SqliteSaver(next(database for database in self.databases if database.path == ledger.path))
