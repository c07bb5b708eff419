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
    describe_type,
    get_key,
    get_slice,
    multiply,
)

EVALUATION = Evaluation({})


def test_adding_a_number_and_a_string_is_rejected() -> None:
    with pytest.raises(ExpressionError, match="not a number and a string"):
        add(EVALUATION, 1, "a")


def test_strings_and_lists_can_be_repeated_from_either_side() -> None:
    assert multiply(EVALUATION, 2, "ab") == multiply(EVALUATION, "ab", 2) == "abab"
    assert multiply(EVALUATION, [1], -3) == []
    with pytest.raises(ExpressionError, match="larger"):
        multiply(EVALUATION, "ab", 10**9)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(None, None, True), (1, True, False), (1, 1.0, False), ("a", "a", True), (0, None, False)],
)
def test_is_compares_type_and_value(left: Any, right: Any, expected: bool) -> None:
    assert COMPARE["Is"](EVALUATION, left, right) is expected
    assert COMPARE["IsNot"](EVALUATION, left, right) is not expected


def test_in_supports_only_strings_lists_and_maps() -> None:
    assert contains(EVALUATION, "abc", "a")
    assert contains(EVALUATION, {"a": 1}, "a")
    with pytest.raises(ExpressionError, match="not null"):
        contains(EVALUATION, None, "a")


def test_a_dot_reads_only_keys() -> None:
    assert get_key({"a": 1}, "a") == 1
    with pytest.raises(ExpressionError, match="no key 'b'"):
        get_key({"a": 1}, "b")
    with pytest.raises(ExpressionError, match="not a string"):
        get_key("abc", "upper")


def test_slices_work_for_lists_and_strings() -> None:
    assert get_slice(EVALUATION, [1, 2, 3], 1, None) == [2, 3]
    assert get_slice(EVALUATION, "abc", None, None, -1) == "cba"
    with pytest.raises(ExpressionError, match="a map cannot be sliced"):
        get_slice(EVALUATION, {}, 0, 1)


@pytest.mark.parametrize("operator", [*BINARY.values(), *COMPARE.values()])
@pytest.mark.parametrize("value", ["a" * 50, list(range(50)), [["a" * 50]], {"a" * 50: 1}])
def test_operators_spend_work_for_their_input_and_output(operator: Any, value: Any) -> None:
    for left, right in ((value, value), (value, 2), ("a", value), (["a"], value)):
        evaluation = Evaluation({})
        before = evaluation.work_left
        try:
            result = operator(evaluation, left, right)
        except (ExpressionError, TypeError):
            continue  # rejected before reading the value
        spent = before - evaluation.work_left
        if isinstance(result, str | list):
            assert spent >= len(result)
        else:
            assert spent >= 1 or isinstance(right, dict) or type(left) is not type(right)


def test_a_long_comparison_is_rejected() -> None:
    doubled: list[Any] = ["x"]
    for _ in range(60):
        doubled = [doubled, doubled]
    for name in ("Eq", "Lt", "Is", "NotIn"):
        with pytest.raises(WorkLimitExceeded):
            COMPARE[name](Evaluation({}, work=100_000), doubled, doubled[:])


def test_every_value_has_a_kind() -> None:
    assert [describe_type(value) for value in (None, True, 1, 1.5, "", [], {}, object())] == [
        *("null", "a boolean", "a number", "a number", "a string", "a list", "a map", "another value")
    ]
