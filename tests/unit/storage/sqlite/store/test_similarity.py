"""Similarity scores of vectors, with and without numpy."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from statewright.store import vectors as module
from statewright.store.vectors import pack_vectors, score_items


def _numpy_modules() -> list[Any]:
    try:
        import numpy  # pyright: ignore
    except ImportError:
        return [None]
    return [None, numpy]


@pytest.fixture(params=_numpy_modules(), ids=lambda numpy: "numpy" if numpy else "plain")
def _implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_numpy", lambda: request.param)


def test_vectors_are_packed_as_consecutive_floats_of_four_bytes() -> None:
    assert pack_vectors([[1.0, 0.5], [-2.0, 0.0]]) == struct.pack("<4f", 1, 0.5, -2, 0)
    assert pack_vectors([]) == b""


@pytest.mark.usefixtures("_implementation")
@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[1.0, 0.0]], 1.0),
        ([[0.0, 1.0]], 0.0),
        ([[-1.0, 0.0]], -1.0),
        ([[0.6, 0.8]], 0.6),
        ([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8]], 1.0),
        ([[0.0, 0.0]], 0.0),
        ([[-0.6, 0.8], [-1.0, 0.0]], -0.6),
    ],
)
def test_the_score_of_an_item_is_that_of_its_nearest_vector(
    vectors: Sequence[Sequence[float]], expected: float
) -> None:
    assert list(score_items([1.0, 0.0], [(7, pack_vectors(vectors))])) == [(7, expected)]


@pytest.mark.usefixtures("_implementation")
def test_scoring_no_items_returns_nothing() -> None:
    assert list(score_items([1.0], [])) == []


@pytest.mark.usefixtures("_implementation")
def test_many_items_are_scored_in_their_order() -> None:
    random_source = random.Random(1)
    items = [[_unit(random_source, 8) for _ in range(1 + n % 3)] for n in range(1300)]
    query = _unit(random_source, 8)
    scores = list(score_items(query, ((n, pack_vectors(vectors)) for n, vectors in enumerate(items))))
    assert [number for number, _ in scores] == list(range(1300))
    expected = [max(sum(a * b for a, b in zip(vector, query, strict=True)) for vector in vectors) for vectors in items]
    assert [score for _, score in scores] == pytest.approx(expected, abs=1e-6)


@pytest.mark.usefixtures("_implementation")
def test_equal_vectors_get_equal_scores() -> None:
    random_source = random.Random(2)
    vector, query = _unit(random_source, 300), _unit(random_source, 300)
    scores = score_items(query, ((n, pack_vectors([vector] * (1 + n % 5))) for n in range(700)))
    assert len({score for _, score in scores}) == 1


def _unit(random_source: random.Random, dims: int) -> list[float]:
    vector = [random_source.gauss(0, 1) for _ in range(dims)]
    return [value / math.hypot(*vector) for value in vector]
