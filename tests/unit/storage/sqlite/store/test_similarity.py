"""How near vectors are: the same numbers with numpy and without."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from typing import Any

import pytest

from statewright.store import vectors as nearness
from statewright.store.vectors import pack_vectors, score_items


def _ways() -> list[Any]:
    try:
        import numpy  # pyright: ignore
    except ImportError:
        return [None]
    return [None, numpy]


@pytest.fixture(params=_ways(), ids=lambda way: "numpy" if way else "plain")
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearness, "_numpy", lambda: request.param)


def test_vectors_are_packed_one_after_the_other_in_four_bytes_a_number() -> None:
    assert pack_vectors([[1.0, 0.5], [-2.0, 0.0]]) == struct.pack("<4f", 1, 0.5, -2, 0)
    assert pack_vectors([]) == b""


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize(
    ("vectors", "near"),
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
def test_the_nearest_vector_of_an_item_counts(vectors: Sequence[Sequence[float]], near: float) -> None:
    assert list(score_items([1.0, 0.0], [(7, pack_vectors(vectors))])) == [(7, near)]


@pytest.mark.usefixtures("_way")
def test_where_there_are_no_items_nothing_is_scored() -> None:
    assert list(score_items([1.0], [])) == []


@pytest.mark.usefixtures("_way")
def test_many_items_of_several_vectors_each_keep_their_order() -> None:
    chance = random.Random(1)
    items = [[_unit(chance, 8) for _ in range(1 + n % 3)] for n in range(1300)]
    wanted = _unit(chance, 8)
    found = list(score_items(wanted, ((n, pack_vectors(vectors)) for n, vectors in enumerate(items))))
    assert [number for number, _ in found] == list(range(1300))
    near = [max(sum(a * b for a, b in zip(vector, wanted, strict=True)) for vector in vectors) for vectors in items]
    assert [score for _, score in found] == pytest.approx(near, abs=1e-6)


@pytest.mark.usefixtures("_way")
def test_equal_vectors_are_equally_near_wherever_they_stand() -> None:
    chance = random.Random(2)
    vector, wanted = _unit(chance, 300), _unit(chance, 300)
    found = score_items(wanted, ((n, pack_vectors([vector] * (1 + n % 5))) for n in range(700)))
    assert len({score for _, score in found}) == 1


def _unit(chance: random.Random, dims: int) -> list[float]:
    vector = [chance.gauss(0, 1) for _ in range(dims)]
    return [one / math.hypot(*vector) for one in vector]
