"""What signs do to plain values."""

from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.operators import add, contains, key_of, kind, multiply, part_of, same


def test_a_number_and_a_text_are_not_added():
    with pytest.raises(ExpressionError, match="found a number and a text"):
        add(1, "a")


def test_texts_and_lists_are_repeated_from_either_side():
    assert multiply(2, "ab") == multiply("ab", 2) == "abab"
    assert multiply([1], -3) == []
    with pytest.raises(ExpressionError, match="larger"):
        multiply("ab", 10**9)


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [(None, None, True), (1, True, False), (1, 1.0, False), ("a", "a", True), (0, None, False)],
)
def test_is_asks_for_kind_and_value(left: Any, right: Any, answer: bool):
    assert same(left, right) is answer


def test_in_looks_into_texts_lists_and_maps_only():
    assert contains("a", "abc")
    assert contains("a", {"a": 1})
    with pytest.raises(ExpressionError, match="found null"):
        contains("a", None)


def test_a_dot_reads_a_key_and_nothing_else():
    assert key_of({"a": 1}, "a") == 1
    with pytest.raises(ExpressionError, match="no key 'b'"):
        key_of({"a": 1}, "b")
    with pytest.raises(ExpressionError, match="found a text"):
        key_of("abc", "upper")


def test_slices_are_those_of_lists_and_texts():
    assert part_of([1, 2, 3], 1, None) == [2, 3]
    with pytest.raises(ExpressionError, match="a map has no slices"):
        part_of({}, 0, 1)


def test_every_value_has_a_kind():
    assert [kind(one) for one in (None, True, 1, 1.5, "", [], {}, object())] == [
        *("null", "true or false", "a number", "a number", "a text", "a list", "a map", "something else")
    ]
