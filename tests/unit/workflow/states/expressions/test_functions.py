"""The functions of expressions."""

from typing import Any

import pytest

from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.functions import FUNCTIONS, TYPES


def test_4_2_the_table_contains_exactly_the_functions_of_the_language():
    assert {*FUNCTIONS, "isinstance"} == {
        "len",
        "min",
        "max",
        "sum",
        "abs",
        "str",
        "int",
        "float",
        "bool",
        "list",
        "any",
        "all",
        "isinstance",
        "round",
        "sorted",
    }
    assert set(TYPES) == {"str", "int", "float", "bool", "list", "dict"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("len('abc') + len([1]) + len({'a': 1})", 5),
        ("min('b', 'a')", "a"),
        ("max([1, 2.5])", 2.5),
        ("sum([])", 0),
        ("abs(-2)", 2),
        ("str(15)", "15"),
        ("str()", ""),
        ("str('a')", "a"),
        ("str(None)", "None"),
        ("int('15') + int(1.9)", 16),
        ("float('1.5')", 1.5),
        ("bool()", False),
        ("bool('')", False),
        ("list()", []),
        ("list('ab')", ["a", "b"]),
        ("list({'k': 1})", ["k"]),
        ("any([0, 1])", True),
        ("all([0, 1])", False),
        ("round(2.567, 1)", 2.6),
        ("round(2.5)", 2),
        ("round(15, -1)", 20),
        ("sorted([2, 1])", [1, 2]),
        ("sorted('ba')", ["a", "b"]),
    ],
)
def test_4_2_functions_return_the_same_as_in_python(text: str, value: Any):
    result = parse_expression(text).evaluate({})

    assert result == value
    assert type(result) is type(value)
