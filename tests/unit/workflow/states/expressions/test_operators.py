"""The operators, on plain values."""

from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import Evaluation, WorkLimitExceeded
from statewright.workflow.states.expressions.operators import (
    BINARY,
    COMPARE,
    add,
    contains,
    describe_kind,
    get_key,
    get_slice,
    multiply,
)

EVALUATION = Evaluation({})


def test_a_number_and_a_text_are_not_added() -> None:
    with pytest.raises(ExpressionError, match="not a number and a string"):
        add(EVALUATION, 1, "a")


def test_texts_and_lists_are_repeated_from_either_side() -> None:
    assert multiply(EVALUATION, 2, "ab") == multiply(EVALUATION, "ab", 2) == "abab"
    assert multiply(EVALUATION, [1], -3) == []
    with pytest.raises(ExpressionError, match="larger"):
        multiply(EVALUATION, "ab", 10**9)


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [(None, None, True), (1, True, False), (1, 1.0, False), ("a", "a", True), (0, None, False)],
)
def test_is_compares_type_and_value(left: Any, right: Any, answer: bool) -> None:
    assert COMPARE["Is"](EVALUATION, left, right) is answer
    assert COMPARE["IsNot"](EVALUATION, left, right) is not answer


def test_in_looks_into_texts_lists_and_maps_only() -> None:
    assert contains(EVALUATION, "abc", "a")
    assert contains(EVALUATION, {"a": 1}, "a")
    with pytest.raises(ExpressionError, match="not null"):
        contains(EVALUATION, None, "a")


def test_a_dot_reads_a_key_and_nothing_else() -> None:
    assert get_key({"a": 1}, "a") == 1
    with pytest.raises(ExpressionError, match="no key 'b'"):
        get_key({"a": 1}, "b")
    with pytest.raises(ExpressionError, match="not a string"):
        get_key("abc", "upper")


def test_slices_are_those_of_lists_and_texts() -> None:
    assert get_slice(EVALUATION, [1, 2, 3], 1, None) == [2, 3]
    assert get_slice(EVALUATION, "abc", None, None, -1) == "cba"
    with pytest.raises(ExpressionError, match="a map cannot be sliced"):
        get_slice(EVALUATION, {}, 0, 1)


@pytest.mark.parametrize("operator", [*BINARY.values(), *COMPARE.values()])
@pytest.mark.parametrize("value", ["a" * 50, list(range(50)), [["a" * 50]], {"a" * 50: 1}])
def test_an_operator_pays_for_what_it_reads_and_makes(operator: Any, value: Any) -> None:
    for left, right in ((value, value), (value, 2), ("a", value), (["a"], value)):
        evaluation = Evaluation({})
        before = evaluation.work_left
        try:
            result = operator(evaluation, left, right)
        except (ExpressionError, TypeError):
            continue  # refused, without a look at it
        paid = before - evaluation.work_left
        if isinstance(result, str | list):
            assert paid >= len(result)
        else:
            assert paid >= 1 or isinstance(right, dict) or type(left) is not type(right)


def test_a_comparison_that_would_take_too_long_is_refused() -> None:
    doubled: list[Any] = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    for name in ("Eq", "Lt", "Is", "NotIn"):
        with pytest.raises(WorkLimitExceeded):
            COMPARE[name](Evaluation({}, work=100_000), doubled, doubled[:])


def test_every_value_has_a_kind() -> None:
    assert [describe_kind(one) for one in (None, True, 1, 1.5, "", [], {}, object())] == [
        *("null", "a boolean", "a number", "a number", "a string", "a list", "a map", "another value")
    ]
