"""Similarity by vectors."""

import asyncio
from collections.abc import Sequence

import pytest

from statewright.agents.memory.retrieval import VectorSearch
from statewright.errors import ModelError


class Letters:
    """Embeds texts by counting letters, and records them."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts.extend(texts)
        return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def nearest(search: VectorSearch, query: str, texts: Sequence[str], count: int) -> list[int]:
    return asyncio.run(search.nearest(query, texts, count))


def test_the_nearest_texts_come_first_regardless_of_their_length() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["b", "aaab", "a", "ab"], 3) == [2, 1, 3]


def test_equally_near_texts_are_ordered_from_the_last() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["a", "b", "aa"], 1) == [2]


def test_each_text_is_embedded_once() -> None:
    letters = Letters()
    search = VectorSearch(letters)
    nearest(search, "a", ["b", "b", "c"], 1)
    nearest(search, "c", ["b", "c", "cb"], 1)
    assert letters.texts == ["a", "b", "c", "cb"]


def test_an_embedding_can_be_a_coroutine_function() -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return Letters()(texts)

    assert nearest(VectorSearch(embed), "a", ["b", "a"], 1) == [1]


def test_a_zero_vector_comes_last() -> None:
    assert nearest(VectorSearch(Letters()), "a", ["a", "x"], 2) == [0, 1]


def test_invalid_vectors_are_refused() -> None:
    with pytest.raises(ModelError, match="1 vectors for 2 texts"):
        nearest(VectorSearch(lambda texts: [[1.0]]), "a", ["b"], 1)
    with pytest.raises(ModelError, match="lengths 1 and 2"):
        nearest(VectorSearch(lambda texts: [[1.0] * len(text) for text in texts]), "a", ["bb"], 1)
