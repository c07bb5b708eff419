"""Similarity by the search of a store."""

import asyncio
from collections.abc import Sequence

from statewright.agents.memory.retrieval import StoreSearch
from statewright.store import Index, InMemoryStore


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def make_store() -> InMemoryStore:
    return InMemoryStore(index=Index(dims=3, embed=letters, fields=("text",)))


def nearest(search: StoreSearch, store: InMemoryStore, query: str, texts: Sequence[str], count: int) -> list[int]:
    return asyncio.run(search.nearest(store, ("m",), query, texts, count))


def test_the_store_saves_the_texts_and_finds_the_nearest() -> None:
    store = make_store()
    assert nearest(StoreSearch(), store, "a", ["b", "aaab", "a", "ab"], 3) == [2, 1, 3]
    assert {item.value["text"] for item in store.search(("m",), limit=10)} == {"b", "aaab", "a", "ab"}


def test_a_text_is_stored_once() -> None:
    store = make_store()
    nearest(StoreSearch(), store, "a", ["a"], 1)
    first = store.search(("m",))[0].updated_at
    nearest(StoreSearch(), store, "a", ["a", "b"], 1)
    assert next(item for item in store.search(("m",)) if item.value["text"] == "a").updated_at == first


def test_texts_that_are_no_longer_searched_are_skipped() -> None:
    store, search = make_store(), StoreSearch()
    nearest(search, store, "a", ["a" * n for n in range(1, 40)], 1)
    assert nearest(search, store, "a", ["b", "ab"], 2) == [1, 0]


def test_each_store_gets_the_texts() -> None:
    search = StoreSearch()
    assert nearest(search, make_store(), "a", ["a"], 1) == nearest(search, make_store(), "a", ["a"], 1) == [0]
