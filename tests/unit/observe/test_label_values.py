"""Limits on user-defined label values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statewright.observe.metrics import MAX_LENGTH, LabelValues


def test_the_first_are_told_apart_and_all_others_are_one() -> None:
    values = LabelValues(2)
    assert [values("g", node) for node in "abcab"] == [
        ("g", "a"),
        ("g", "b"),
        ("other", "other"),
        ("g", "a"),
        ("g", "b"),
    ]


@given(st.lists(st.tuples(st.text(), st.text())))
def test_there_are_never_more_than_allowed(given_values: list[tuple[str, str]]) -> None:
    values = LabelValues(3)
    assert len({values(*pair) for pair in given_values} - {("other", "other")}) <= 3


def test_long_values_are_cut_and_others_are_text() -> None:
    assert LabelValues(9)("x" * 1000, 7, None) == ("x" * MAX_LENGTH, "7", "None")


def test_each_owner_has_a_share_and_none_uses_up_that_of_others() -> None:
    values = LabelValues(3, most_per_owner=2)
    assert [values(name, owner="greedy") for name in "abcd"] == [("a",), ("b",), ("other",), ("other",)]
    assert [values(name, owner="modest") for name in "xa"] == [("x",), ("a",)]
    assert [values(name) for name in "pqrs"] == [("p",), ("q",), ("r",), ("other",)]
    assert values("y", owner="modest") == ("y",)
