"""Every adapter obeys its port: the suites that users can run on theirs."""

from __future__ import annotations

from statewright import InMemorySaver, InMemoryStore
from statewright.testing import CheckpointerConformance, StoreConformance


class TestInMemorySaver(CheckpointerConformance):
    def make_saver(self) -> InMemorySaver:
        return InMemorySaver()


class TestInMemoryStore(StoreConformance):
    def make_store(self) -> InMemoryStore:
        return InMemoryStore()
