"""Parsing of expressions, and expressions as immutable values."""

import copy
import pickle

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.expression import DEPTH_LIMIT, LENGTH_LIMIT, NODE_LIMIT


def test_expressions_are_equal_if_their_texts_are():
    assert parse_expression("a > 1") == parse_expression("a > 1") != parse_expression("a >  1")
    assert parse_expression("a > 1") != "a > 1"
    assert len({parse_expression("a"), parse_expression("a"), parse_expression("b")}) == 2


def test_expressions_can_be_copied_and_pickled():
    expression = parse_expression("a > 1")

    for other in (pickle.loads(pickle.dumps(expression)), copy.copy(expression), copy.deepcopy({"x": expression})["x"]):
        assert other == expression
        assert other.evaluate({"a": 2}) is True


def test_expressions_are_immutable():
    expression = parse_expression("a")

    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        expression.text = "b"
    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        del expression.text


def test_the_repr_contains_the_text():
    assert repr(parse_expression("a")) == "Expression('a')"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("valid ==", "'valid ==' is not a valid expression: invalid syntax at column 9"),
        ("a = 1", "column 3"),
        ("  a ==", "column 7"),
        ("", "empty"),
        ("   ", "empty"),
        ("import os", "not a valid expression"),
        ("a; b", "not a valid expression"),
        ("((a)", "never closed"),
        ("a && b", "Write `and` and `or`"),
        ("{{status}} = 1", "without braces"),
        ("'abc", "unterminated"),
        ("a\x00b", "not a valid expression"),
        ("-" * 3000 + "1", "is not a valid expression|too large"),
        ("(" * 400 + "1" + ")" * 400, "is not a valid expression"),
    ],
)
def test_1_8_invalid_syntax_is_rejected_at_once(text: str, expected: str):
    with pytest.raises(ExpressionError, match=expected):
        parse_expression(text)


def test_4_1_length_size_and_depth_are_limited():
    assert parse_expression(" ".join(["a"]).ljust(LENGTH_LIMIT)).evaluate({"a": 1}) == 1
    with pytest.raises(ExpressionError, match=f"{LENGTH_LIMIT + 1} characters"):
        parse_expression("a".ljust(LENGTH_LIMIT + 1))
    assert parse_expression(" or ".join(["a"] * (NODE_LIMIT - 1))).evaluate({"a": 1}) == 1
    with pytest.raises(ExpressionError, match=f"at most {NODE_LIMIT} parts"):
        parse_expression(" or ".join(["a"] * NODE_LIMIT))
    assert parse_expression("not " * (DEPTH_LIMIT - 1) + "a").evaluate({"a": 1}) is False
    with pytest.raises(ExpressionError, match=f"at most {DEPTH_LIMIT} nested operations"):
        parse_expression("not " * DEPTH_LIMIT + "a")


def test_long_texts_are_quoted_in_part():
    with pytest.raises(ExpressionError) as raised:
        parse_expression("a ==" + " " * 500 + "== b")

    assert len(str(raised.value)) < 250


def test_an_expression_may_have_several_lines():
    assert parse_expression("a == 1\n  or\r\n  b == 2\n").evaluate({"a": 0, "b": 2}) is True


def test_invalid_escapes_cause_no_warning():
    assert parse_expression(r"'\d' == a").evaluate({"a": r"\d"}) is True


def test_the_error_for_an_undefined_name_lists_the_defined_names():
    with pytest.raises(ExpressionError, match=r"'cout > 1': 'cout' is not defined\. Names: count, status\."):
        parse_expression("cout > 1").evaluate({"count": 1, "status": "x"})


def test_at_most_a_few_names_are_listed():
    with pytest.raises(ExpressionError) as raised:
        parse_expression("a").evaluate({f"name{number}": 1 for number in range(1000)})

    assert str(raised.value).endswith(" and more.")
    assert len(str(raised.value)) < 300
