"""Search by meaning: the texts of a value, their vectors, and the similarity of vectors."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.store import Index
from statewright.store.vectors import embed_texts, similarity, texts_at

VALUE: dict[str, Any] = {
    "title": "T",
    "empty": "",
    "number": 3,
    "zero": 0,
    "flag": False,
    "none": None,
    "author": {"name": "Anna", "home": {"town": "Ulm"}},
    "parts": [{"text": "one"}, {"text": "two"}, {"other": 1}],
    "tags": ["a", "b"],
    "nothing": [],
}


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Embed a text as the numbers of its letters a and b."""
    return [[float(text.count("a")), float(text.count("b"))] for text in texts]


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("title", ["T"]),
        ("empty", [""]),
        ("number", ["3"]),
        ("zero", ["0"]),
        ("flag", ["false"]),
        ("author.name", ["Anna"]),
        ("author.home.town", ["Ulm"]),
        ("author.home", ['{"town": "Ulm"}']),
        ("parts[*].text", ["one", "two"]),
        ("parts[0].text", ["one"]),
        ("parts[-1].other", ["1"]),
        ("parts[-2].text", ["two"]),
        ("tags[*]", ["a", "b"]),
        ("tags[1]", ["b"]),
        ("tags", ['["a", "b"]']),
    ],
)
def test_a_path_selects_texts(path: str, texts: list[str]) -> None:
    assert texts_at(VALUE, [path]) == texts


@pytest.mark.parametrize(
    "path",
    [
        "none",
        "missing",
        "author.missing",
        "title.inside",
        "tags[2]",
        "tags[-3]",
        "nothing[*]",
        "nothing[0]",
        "title[0]",
    ],
)
def test_a_path_without_a_value_selects_no_text(path: str) -> None:
    assert texts_at(VALUE, [path]) == []


@pytest.mark.parametrize("path", ["$", ""])
def test_the_root_path_selects_the_json_of_the_value(path: str) -> None:
    (text,) = texts_at(VALUE, [path])
    assert json.loads(text) == VALUE


def test_the_json_of_a_value_does_not_depend_on_the_order_of_its_keys() -> None:
    assert texts_at({"a": 1, "b": 2}, ["$"]) == texts_at({"b": 2, "a": 1}, ["$"])


def test_values_that_are_not_json_are_converted_to_strings() -> None:
    assert texts_at({"place": 1 + 2j}, ["place"]) == ['"(1+2j)"']


def test_texts_are_in_the_order_of_the_paths() -> None:
    assert texts_at(VALUE, ["tags[*]", "missing", "title", "title"]) == ["a", "b", "T", "T"]
    assert texts_at(VALUE, []) == []


def test_vectors_are_normalized() -> None:
    (first, second) = embed_texts(Index(dims=2, embed=embed), ["aaabbbb", "b"])
    assert first == pytest.approx([0.6, 0.8])
    assert second == pytest.approx([0, 1])


def test_a_zero_vector_is_unchanged() -> None:
    assert embed_texts(Index(dims=2, embed=embed), ["xyz"]) == [[0.0, 0.0]]


def test_no_texts_are_not_embedded() -> None:
    def fail(texts: Sequence[str]) -> list[list[float]]:
        raise AssertionError("there was nothing to embed")

    assert embed_texts(Index(dims=2, embed=fail), []) == []


def test_vectors_can_be_sequences_of_integers() -> None:
    assert embed_texts(Index(dims=2, embed=lambda texts: tuple((3, 4) for _ in texts)), ["a"]) == [[0.6, 0.8]]


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], "2 vectors of 3 dimensions for 2 texts.*of 2 dimensions for each"),
        ([[1.0, 2.0], [1.0]], "of 1 dimensions"),
        ([[1.0, 2.0]], "1 vectors .*for 2 texts"),
        ([[1.0, 2.0]] * 3, "3 vectors .*for 2 texts"),
        ([], "0 vectors .*for 2 texts"),
        ([[1.0, 2.0], [math.nan, 1.0]], "not finite"),
        ([[1.0, -math.inf], [0.0, 1.0]], "not finite"),
        ([[1.0, 2.0], [1.7e308, 1.7e308]], "too large"),
    ],
)
def test_an_unusable_embedding_is_refused(vectors: list[list[float]], message: str) -> None:
    with pytest.raises(InvalidUpdateError, match=message):
        embed_texts(Index(dims=2, embed=lambda texts: vectors), ["a", "b"])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1.0, 0.0], [1.0, 0.0], 1),
        ([1.0, 0.0], [0.0, 1.0], 0),
        ([1.0, 0.0], [-1.0, 0.0], -1),
        ([1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)], math.sqrt(0.5)),
        ([0.0, 0.0], [1.0, 0.0], 0),
    ],
)
def test_similarity_is_the_cosine_of_the_angle(first: list[float], second: list[float], expected: float) -> None:
    assert similarity(first, second) == pytest.approx(expected)
    assert similarity(second, first) == pytest.approx(expected)


def test_vectors_of_different_lengths_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="zip"):
        similarity([1.0], [1.0, 0.0])
