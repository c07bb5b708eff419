"""Similarity by the search of a store."""

import asyncio
from collections.abc import Sequence

from statewright.agents.memory.retrieval import StoreSearch
from statewright.store import Index, InMemoryStore


def letters(texts: Sequence[str]) -> list[list[float]]:
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def store() -> InMemoryStore:
    return InMemoryStore(index=Index(dims=3, embed=letters, fields=("text",)))


def nearest(by: StoreSearch, kept: InMemoryStore, query: str, texts: Sequence[str], count: int) -> list[int]:
    return asyncio.run(by.nearest(kept, ("m",), query, texts, count))


def test_the_store_finds_the_nearest_and_keeps_the_texts() -> None:
    kept = store()
    assert nearest(StoreSearch(), kept, "a", ["b", "aaab", "a", "ab"], 3) == [2, 1, 3]
    assert {item.value["text"] for item in kept.search(("m",), limit=10)} == {"b", "aaab", "a", "ab"}


def test_a_text_is_put_once() -> None:
    kept = store()
    nearest(StoreSearch(), kept, "a", ["a"], 1)
    first = kept.search(("m",))[0].updated_at
    nearest(StoreSearch(), kept, "a", ["a", "b"], 1)
    assert next(item for item in kept.search(("m",)) if item.value["text"] == "a").updated_at == first


def test_what_is_not_asked_for_any_more_is_passed_over() -> None:
    kept, by = store(), StoreSearch()
    nearest(by, kept, "a", ["a" * n for n in range(1, 40)], 1)
    assert nearest(by, kept, "a", ["b", "ab"], 2) == [1, 0]


def test_another_store_is_filled_too() -> None:
    by = StoreSearch()
    assert nearest(by, store(), "a", ["a"], 1) == nearest(by, store(), "a", ["a"], 1) == [0]
