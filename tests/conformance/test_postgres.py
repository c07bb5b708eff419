"""The views of Postgres keep the promises of their ports, on a real server."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest
from tests.postgres_server import empty_database

from statewright.checkpoint import Checkpointer
from statewright.runs import Ledger
from statewright.storage.postgres import PostgresCache, PostgresLedger, PostgresSaver, PostgresStore
from statewright.store import Index
from statewright.testing.conformance.cache import CacheConformance
from statewright.testing.conformance.checkpointer import CheckpointerConformance
from statewright.testing.conformance.checkpointer.workspace import WorkspaceCheckpointerConformance
from statewright.testing.conformance.ledger import LedgerConformance
from statewright.testing.conformance.store import StoreConformance


class TestSaver(WorkspaceCheckpointerConformance):
    numbers = cycle(range(2))

    def make_saver(self) -> PostgresSaver:
        return PostgresSaver(empty_database(next(self.numbers)))


@pytest.mark.full
class TestEncryptedSaver(CheckpointerConformance):
    """With encryption and compression, and without prepared statements, as behind a pooler."""

    def make_saver(self) -> PostgresSaver:
        return PostgresSaver(empty_database(key=bytes(32), compress=True, prepare=False))


class TestLedger(LedgerConformance):
    def make_ledger(self) -> PostgresLedger:
        return PostgresLedger(empty_database())

    def make_saver(self, ledger: Ledger) -> Checkpointer:
        assert isinstance(ledger, PostgresLedger)
        return PostgresSaver(ledger.database)


class TestStore(StoreConformance):
    def make_store(self, **options: Any) -> PostgresStore:
        return PostgresStore(empty_database(), **options)


class TestStoreWithPgvector(StoreConformance):
    def make_store(self, **options: Any) -> PostgresStore:
        index = Index(dims=3, embed=lambda texts: [[len(text), 1.0, 2.0] for text in texts])
        store = PostgresStore(empty_database(), index=index, **options)
        assert store._vector_search is not None
        return store

    def test_a_query_without_an_index_is_refused(self) -> None:
        """This store has an index."""
        assert self.make_store().search((), query="any") == []


class TestCache(CacheConformance):
    def make_cache(self, **options: Any) -> PostgresCache:
        return PostgresCache(empty_database(), **options)
