"""Reading Python literals."""

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import check_linear, spend_at_most

from statewright.workflow.states.expressions.literal import (
    DEPTH_LIMIT,
    DIGIT_LIMIT,
    InvalidLiteral,
    read_literal,
    read_literal_at,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(PLAIN)
def test_every_repr_of_plain_values_is_read(value: Any):
    assert read_literal(repr(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        "1", "-1", "+1", "1_000", "0x1F", "0o17", "0b101", "1.", ".5", "1e3", "1E-3", "00", "1_0.5",
        "'a'", '"a"', "'''a\n'b'''", '"""a"b"""', "''", '""', "r'\\d'", "u'a'", "'a' 'b'", "('a'\n 'b')",
        r"'\n\t\\\'\"\x41\u00e9\U0001F600\101\0\a\q'", "'a\\\nb'",
        "[]", "[1]", "[1,]", "[1, [2, [3]]]", "{}", "{'a': 1,}", "{'a': {'b': [True, None]}}", "(1)", "('a')",
        "[1, # one\n 2]", "[\n1\n,\n2\n]", " 5 ", "'é'",
    ],
)  # fmt: skip
def test_literals_are_read_as_in_python(text: str):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read_literal(text) == ast.literal_eval(text.strip())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1, 2)", [1, 2]),
        ("(1,)", [1]),
        ("()", []),
        ("[(1, 2)]", [[1, 2]]),
        ("[true, false, null]", [True, False, None]),
    ],
)
def test_2_1_tuples_become_lists(text: str, value: Any):
    assert read_literal(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("{1: 'a'}", {"1": "a"}), ("{None: 1, True: 2}", {"null": 1, "true": 2}), ("{1.5: 1}", {"1.5": 1})],
)
def test_keys_become_strings(text: str, value: Any):
    assert read_literal(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "x", "07", "1__0", "1_", "_1", "1x", "1.2.3", "--1", "+", ".", "e5", "1e", "0x", "1e999", "-1e999",
        "1j", "1+2j",
        "1 2", "1,", "'a", "'a\nb'", "'''a", "b'a'", "f'a'", "{1, 2}", "{'a'}", "{'a': }", "{'a' 1}", "{[1]: 2}",
        "[1 2]", "[,]", "[1,,2]", "[1", "(1", "{'a': 1", "[1)", "(,)", "nan", "inf", "None_", "Truex", "set()", "[x]",
        "9" * 2000, "5 # five\n", "١", "'\\", "...", "__import__('os')", "[1] + [2]", "()()", "1 if 1 else 2",
    ],
)  # fmt: skip
def test_2_1_other_texts_are_rejected(text: str):
    with pytest.raises(InvalidLiteral):
        read_literal(text)


def test_a_literal_may_be_followed_by_other_text():
    assert read_literal_at("see [1, 'a'] there", 4) == ([1, "a"], 12)


def test_integers_may_be_longer_than_floats():
    assert read_literal("9" * DIGIT_LIMIT) == int("9" * DIGIT_LIMIT)
    for text in ("9" * (DIGIT_LIMIT + 1), "1e400"):
        with pytest.raises(InvalidLiteral):
            read_literal(text)


def test_2_1_the_depth_is_limited():
    assert read_literal("[" * DEPTH_LIMIT + "]" * DEPTH_LIMIT)
    with pytest.raises(InvalidLiteral) as raised:
        read_literal("[" * (DEPTH_LIMIT + 1) + "]" * (DEPTH_LIMIT + 1))
    assert raised.value.position == DEPTH_LIMIT


@pytest.mark.parametrize(
    "unit", ["1", "(", "[", "{'a':", "'''", '"', "\\", "'\\'", "[1,", "1_", "'a'", "#\n", " ", "-", "0x1", "1e", "r'"]
)
def test_4_1_hostile_text_is_read_in_linear_time(unit: str):
    def read(size: int) -> None:
        for text in (unit * size, "[" + unit * size + "x", "['" + unit * size):
            with pytest.raises(InvalidLiteral):
                read_literal(text + "\x00")

    check_linear(lambda size: lambda: read(size), 500)
    with spend_at_most():
        read(100_000)
