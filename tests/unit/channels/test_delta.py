"""`Added` and `Merged`: deltas that are smaller than the new value."""

from __future__ import annotations

import pytest

from statewright.channels import Added, Merged


@pytest.mark.parametrize("kind", [Added, Merged])
def test_deltas_are_equal_if_their_items_are(kind: type) -> None:
    assert kind([1, 2]) == kind([1, 2])
    assert kind([1, 2]) == kind((1, 2))
    assert kind([1, 2]) != kind([2, 1])
    assert kind([]) != kind([1])


def test_deltas_of_different_kinds_and_lists_are_not_equal() -> None:
    assert Added([1]) != Merged([1])
    assert Merged([1]) != Added([1])
    assert Added([1]) != [1]
    assert Merged([1]) != [1]


@pytest.mark.parametrize("kind", [Added, Merged])
def test_deltas_are_unhashable(kind: type) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind([1]))


def test_the_repr_of_a_delta_shows_its_items() -> None:
    assert repr(Added(["a", 1])) == "Added(['a', 1])"
    assert repr(Merged([])) == "Merged([])"
