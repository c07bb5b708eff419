"""Limits on user-defined label values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statewright.observe.metrics import MAX_LENGTH, LabelValues


def test_values_beyond_the_limit_are_replaced() -> None:
    values = LabelValues(2)
    assert [values("g", node) for node in "abcab"] == [
        ("g", "a"),
        ("g", "b"),
        ("other", "other"),
        ("g", "a"),
        ("g", "b"),
    ]


@given(st.lists(st.tuples(st.text(), st.text())))
def test_the_limit_is_never_exceeded(given_values: list[tuple[str, str]]) -> None:
    values = LabelValues(3)
    assert len({values(*pair) for pair in given_values} - {("other", "other")}) <= 3


def test_values_are_strings_of_limited_length() -> None:
    assert LabelValues(9)("x" * 1000, 7, None) == ("x" * MAX_LENGTH, "7", "None")


def test_each_owner_has_its_own_limit() -> None:
    values = LabelValues(3, max_per_owner=2)
    assert [values(name, owner="greedy") for name in "abcd"] == [("a",), ("b",), ("other",), ("other",)]
    assert [values(name, owner="modest") for name in "xa"] == [("x",), ("a",)]
    assert [values(name) for name in "pqrs"] == [("p",), ("q",), ("r",), ("other",)]
    assert values("y", owner="modest") == ("y",)
