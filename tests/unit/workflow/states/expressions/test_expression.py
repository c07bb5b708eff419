"""Texts become expressions, or are refused with a sentence; an expression is a plain, frozen value."""

import copy
import pickle

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.expression import DEPTH_LIMIT, LENGTH_LIMIT, NODE_LIMIT


def test_an_expression_is_equal_to_every_other_of_the_same_text():
    assert parse_expression("a > 1") == parse_expression("a > 1") != parse_expression("a >  1")
    assert parse_expression("a > 1") != "a > 1"
    assert len({parse_expression("a"), parse_expression("a"), parse_expression("b")}) == 2


def test_an_expression_can_be_copied_and_sent_to_another_process():
    expression = parse_expression("a > 1")

    for other in (pickle.loads(pickle.dumps(expression)), copy.copy(expression), copy.deepcopy({"x": expression})["x"]):
        assert other == expression
        assert other.evaluate({"a": 2}) is True


def test_an_expression_does_not_change():
    expression = parse_expression("a")

    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        expression.text = "b"
    with pytest.raises(AttributeError, match=r"cannot (assign|delete)"):
        del expression.text


def test_it_shows_its_text():
    assert repr(parse_expression("a")) == "Expression('a')"


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_1_8_what_does_not_parse_is_refused_at_once(text: str, found: str):
    with pytest.raises(ExpressionError, match=found):
        parse_expression(text)


def test_4_1_a_text_has_a_length_a_size_and_a_depth():
    assert parse_expression(" ".join(["a"]).ljust(LENGTH_LIMIT)).evaluate({"a": 1}) == 1
    with pytest.raises(ExpressionError, match=f"{LENGTH_LIMIT + 1} characters"):
        parse_expression("a".ljust(LENGTH_LIMIT + 1))
    assert parse_expression(" or ".join(["a"] * (NODE_LIMIT - 1))).evaluate({"a": 1}) == 1
    with pytest.raises(ExpressionError, match=f"at most {NODE_LIMIT} parts"):
        parse_expression(" or ".join(["a"] * NODE_LIMIT))
    assert parse_expression("not " * (DEPTH_LIMIT - 1) + "a").evaluate({"a": 1}) is False
    with pytest.raises(ExpressionError, match=f"at most {DEPTH_LIMIT} nested operations"):
        parse_expression("not " * DEPTH_LIMIT + "a")


def test_a_long_text_is_quoted_in_part():
    with pytest.raises(ExpressionError) as raised:
        parse_expression("a ==" + " " * 500 + "== b")

    assert len(str(raised.value)) < 250


def test_an_expression_may_have_several_lines():
    assert parse_expression("a == 1\n  or\r\n  b == 2\n").evaluate({"a": 0, "b": 2}) is True


def test_a_strange_escape_in_a_text_warns_nobody():
    assert parse_expression(r"'\d' == a").evaluate({"a": r"\d"}) is True


def test_a_missing_name_is_named_with_the_names_that_are_there():
    with pytest.raises(ExpressionError, match=r"'cout > 1': 'cout' is not defined\. Names: count, status\."):
        parse_expression("cout > 1").evaluate({"count": 1, "status": "x"})


def test_of_many_names_a_few_are_listed():
    with pytest.raises(ExpressionError) as raised:
        parse_expression("a").evaluate({f"name{number}": 1 for number in range(1000)})

    assert str(raised.value).endswith(" and more.")
    assert len(str(raised.value)) < 300
