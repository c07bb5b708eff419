"""Every adapter passes the conformance suite that users can run on their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from statewright import InMemoryCache, InMemorySaver, InMemoryStore
from statewright.storage.sqlite import SqliteCache, SqliteSaver, SqliteStore
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.testing import CacheConformance, StoreConformance, WorkspaceCheckpointerConformance


class TestInMemorySaver(WorkspaceCheckpointerConformance):
    def make_saver(self) -> InMemorySaver:
        return InMemorySaver()


class TestInMemoryStore(StoreConformance):
    def make_store(self) -> InMemoryStore:
        return InMemoryStore()


class TestInMemoryCache(CacheConformance):
    def make_cache(self) -> InMemoryCache:
        return InMemoryCache()


class OnSqlite:
    """A new database for each test."""

    database: SqliteDatabase

    @pytest.fixture(autouse=True)
    def _open(self, tmp_path: Path) -> Iterator[None]:
        with SqliteDatabase(tmp_path / "runs.db") as self.database:
            yield


class TestSqliteSaver(WorkspaceCheckpointerConformance):
    @pytest.fixture(autouse=True)
    def _open(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        with ExitStack() as self.opened:
            yield

    def make_saver(self) -> SqliteSaver:
        return self.opened.enter_context(SqliteSaver(self.folder / f"{uuid4().hex}.db"))  # a test may create several


class TestSqliteStore(OnSqlite, StoreConformance):
    def make_store(self) -> SqliteStore:
        return SqliteStore(self.database)


class TestSqliteCache(OnSqlite, CacheConformance):
    def make_cache(self) -> SqliteCache:
        return SqliteCache(self.database)
