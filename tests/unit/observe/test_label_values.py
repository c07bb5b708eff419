"""Values of labels that users make up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statewright.observe.label_values import LONGEST, LabelValues


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
    assert LabelValues(9)("x" * 1000, 7, None) == ("x" * LONGEST, "7", "None")
