"""Every adapter obeys its port: the suites that users can run on theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from statewright import InMemoryCache, InMemorySaver, InMemoryStore
from statewright.storage.sqlite.cache import SqliteCache
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.store import SqliteStore
from statewright.testing import CacheConformance, CheckpointerConformance, StoreConformance


class TestInMemorySaver(CheckpointerConformance):
    def make_saver(self) -> InMemorySaver:
        return InMemorySaver()


class TestInMemoryStore(StoreConformance):
    def make_store(self) -> InMemoryStore:
        return InMemoryStore()


class TestInMemoryCache(CacheConformance):
    def make_cache(self) -> InMemoryCache:
        return InMemoryCache()


class OnSqlite:
    """Suites of what needs a database: a new one for each test."""

    database: SqliteDatabase

    @pytest.fixture(autouse=True)
    def _open(self, tmp_path: Path) -> Iterator[None]:
        with SqliteDatabase(tmp_path / "runs.db") as self.database:
            yield


class TestSqliteStore(OnSqlite, StoreConformance):
    def make_store(self) -> SqliteStore:
        return SqliteStore(self.database)


class TestSqliteCache(OnSqlite, CacheConformance):
    def make_cache(self) -> SqliteCache:
        return SqliteCache(self.database)
