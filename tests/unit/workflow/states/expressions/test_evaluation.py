"""The work budget of an evaluation."""

from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import (
    ENTRY_COST,
    EXPRESSION_VALUE_LIMIT,
    FLOAT_SIZE,
    INTEGER_LIMIT,
    STEP_COST,
    WORK_LIMIT,
    Evaluation,
    WorkLimitExceeded,
    check_number,
    check_operand,
    measure,
)


def test_measure_counts_nested_values() -> None:
    assert measure("abc") == 4
    assert measure([]) == 1 + STEP_COST
    assert measure({"k": None}) == 1 + STEP_COST + ENTRY_COST + 3
    assert measure(["a", {"b": [1, None]}]) == 9 + 3 * STEP_COST + ENTRY_COST
    assert measure([1.5, "ab"]) == 1 + STEP_COST + 2 + FLOAT_SIZE + 2
    assert measure(1.5) == 1 + FLOAT_SIZE
    assert measure(["a" * 100] * 10**6) > EXPRESSION_VALUE_LIMIT
    assert measure(10**1000) > 1000
    assert measure(["abc"] * 100, limit=10) < 150


def test_a_value_that_contains_itself_can_be_measured() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert measure(circle, limit=10) > 10


def test_numbers_must_be_finite_and_fit_into_64_bits() -> None:
    assert check_number(INTEGER_LIMIT - 1) == INTEGER_LIMIT - 1
    assert check_number(-INTEGER_LIMIT) == -INTEGER_LIMIT
    assert check_number("text") == "text"
    for value in (INTEGER_LIMIT, -INTEGER_LIMIT - 1, float("inf"), float("nan")):
        with pytest.raises(ExpressionError):
            check_number(value)


def test_the_size_of_new_values_is_limited() -> None:
    Evaluation({}).reserve(EXPRESSION_VALUE_LIMIT)
    with pytest.raises(WorkLimitExceeded, match="larger"):
        Evaluation({}).reserve(EXPRESSION_VALUE_LIMIT + 1)


def test_a_pass_costs_the_length_and_a_deep_pass_the_measure() -> None:
    evaluation = Evaluation({})
    evaluation.spend_pass(None)
    evaluation.spend_pass("abc")
    evaluation.spend_pass({"a": 1})
    assert evaluation.work_left == WORK_LIMIT - 4
    evaluation.spend_deep(["ab", "c"], times=2)
    spent = 2 * measure(["ab", "c"])
    assert evaluation.work_left == WORK_LIMIT - 4 - spent
    evaluation.spend_deep("abc")
    evaluation.spend_deep(7)
    evaluation.spend_steps(2)
    assert evaluation.work_left == WORK_LIMIT - 4 - spent - 4 - 2 * STEP_COST


def test_arithmetic_with_long_integers_is_rejected() -> None:
    assert check_operand(2**1023) == 2**1023
    assert check_operand("text") == "text"
    with pytest.raises(ExpressionError, match="1024 bits"):
        check_operand(-(2**1024))


def test_work_beyond_the_budget_is_rejected() -> None:
    evaluation = Evaluation({}, work=2)
    with pytest.raises(WorkLimitExceeded, match="too much work"):
        evaluation.spend_pass([1, 2, 3])
