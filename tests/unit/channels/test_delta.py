"""What is stored of a field that changed, where that is less than its new value."""

from __future__ import annotations

import pytest

from statewright.channels import Added, Merged


@pytest.mark.parametrize("kind", [Added, Merged])
def test_changes_are_told_by_their_items(kind: type) -> None:
    assert kind([1, 2]) == kind([1, 2])
    assert kind([1, 2]) == kind((1, 2))
    assert kind([1, 2]) != kind([2, 1])
    assert kind([]) != kind([1])


def test_changes_of_another_kind_and_plain_lists_are_not_the_same() -> None:
    assert Added([1]) != Merged([1])
    assert Merged([1]) != Added([1])
    assert Added([1]) != [1]
    assert Merged([1]) != [1]


@pytest.mark.parametrize("kind", [Added, Merged])
def test_changes_have_no_hash_for_their_items_may_have_none(kind: type) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind([1]))


def test_changes_show_their_items() -> None:
    assert repr(Added(["a", 1])) == "Added(['a', 1])"
    assert repr(Merged([])) == "Merged([])"
