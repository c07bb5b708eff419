"""Similarity by vectors."""

import asyncio
from collections.abc import Sequence

import pytest

from statewright.agents.memory.retrieval import VectorSearch
from statewright.errors import ModelError


class Letters:
    """Embeds by counting letters, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.extend(texts)
        return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def nearest(by: VectorSearch, query: str, texts: Sequence[str], count: int) -> list[int]:
    return asyncio.run(by.nearest(query, texts, count))


def test_the_nearest_come_first_and_length_does_not_count() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["b", "aaab", "a", "ab"], 3) == [2, 1, 3]


def test_of_equals_the_later_one_comes_first() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["a", "b", "aa"], 1) == [2]


def test_each_text_is_embedded_once() -> None:
    letters = Letters()
    by = VectorSearch(letters)
    nearest(by, "a", ["b", "b", "c"], 1)
    nearest(by, "c", ["b", "c", "cb"], 1)
    assert letters.asked == ["a", "b", "c", "cb"]


def test_an_embedding_may_be_a_coroutine_function() -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return Letters()(texts)

    assert nearest(VectorSearch(embed), "a", ["b", "a"], 1) == [1]


def test_a_vector_of_nothing_is_near_to_nothing() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["a", "x"], 2) == [0, 1]


def test_wrong_vectors_are_refused() -> None:
    with pytest.raises(ModelError, match="1 vectors for 2 texts"):
        nearest(VectorSearch(lambda texts: [[1.0]]), "a", ["b"], 1)
    with pytest.raises(ModelError, match="lengths 1 and 2"):
        nearest(VectorSearch(lambda texts: [[1.0] * len(text) for text in texts]), "a", ["bb"], 1)
