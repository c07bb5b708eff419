"""What an evaluation may make and touch."""

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import (
    INTEGER_LIMIT,
    MADE_LIMIT,
    WORK_LIMIT,
    Run,
    check_made,
    checked_number,
    extent,
)


def test_the_extent_counts_what_is_inside():
    assert extent("abc") == 4
    assert extent(["a", {"b": [1, None]}]) == 9
    assert extent(["a" * 100] * 10**6) > MADE_LIMIT
    assert extent(10**1000) > 1000
    assert extent(["abc"] * 100, limit=10) < 60


def test_numbers_have_63_bits_and_are_finite():
    assert checked_number(INTEGER_LIMIT - 1) == INTEGER_LIMIT - 1
    assert checked_number(-INTEGER_LIMIT) == -INTEGER_LIMIT
    assert checked_number("text") == "text"
    for value in (INTEGER_LIMIT, -INTEGER_LIMIT - 1, float("inf"), float("nan")):
        with pytest.raises(ExpressionError):
            checked_number(value)


def test_what_is_made_is_bounded():
    check_made(MADE_LIMIT)
    with pytest.raises(ExpressionError, match="larger"):
        check_made(MADE_LIMIT + 1)


def test_work_is_paid_for():
    run = Run({})
    run.spend(None)
    run.spend("abc")
    run.spend({"a": 1})
    assert run.left == WORK_LIMIT - 4
    run.left = 2
    with pytest.raises(ExpressionError, match="too large"):
        run.spend([1, 2, 3])
