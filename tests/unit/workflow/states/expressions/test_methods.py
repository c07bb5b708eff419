"""The methods of expressions, by type."""

from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.methods import METHODS

LEFT_OUT = {"encode", "format", "format_map", "maketrans", "translate"}
"""They lead to attributes, or to values that are not JSON's."""


def test_4_2_all_methods_of_texts_that_are_harmless_are_there() -> None:
    assert METHODS[str].keys() == {name for name in dir(str) if not name.startswith("_")} - LEFT_OUT | {"contains"}


def test_4_2_methods_of_lists_and_maps_change_nothing() -> None:
    assert METHODS[list].keys() == {"contains", "copy", "count", "index"}
    assert METHODS[dict].keys() == {"copy", "get", "items", "keys", "values"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'aB'.lower() + 'aB'.upper()", "abAB"),
        ("' a '.strip() + ' b'.lstrip() + 'c '.rstrip()", "abc"),
        ("'xax'.strip('x')", "a"),
        ("'abc'.startswith('a') and 'abc'.endswith('c')", True),
        ("'abc'.startswith(('x', 'a'))", True),
        ("'abc'.startswith(['x'])", False),
        ("'abc'.contains('b')", True),
        ("'aaa'.replace('a', 'bb')", "bbbbbb"),
        ("'aaa'.replace('a', 'bb', 1)", "bbaa"),
        ("'a,b'.split(',')", ["a", "b"]),
        ("'a b'.split()", ["a", "b"]),
        ("'a b'.title()", "A B"),
        ("'aba'.count('a') + 'aba'.find('b')", 3),
        ("[1, 1].count(1) + [2, 1].index(1)", 3),
        ("[1].contains(1)", True),
        ("{'a': 1}.get('a') + {'a': 1}.get('b', 2)", 3),
        ("{'a': 1}.keys() + {'a': 1}.values()", ["a", 1]),
        ("{'a': 1}.items()", [["a", 1]]),
        ("{'get': 5}.get('get')", 5),
        ("{'lower': 5}.lower", 5),
        ("'a/b/c'.rsplit('/', 1)", ["a/b", "c"]),
        ("'a/b/c'.rpartition('/') + 'a=b'.partition('=')", ["a/b", "/", "c", "a", "=", "b"]),
        ("'a\\nb'.splitlines()", ["a", "b"]),
        ("'-'.join(['a', 'b']).capitalize()", "A-b"),
        ("'7'.zfill(3) + 'a'.center(3) + 'a'.ljust(2, '.') + 'a'.rjust(2, '.')", "007 a a..a"),
        ("'a\\tb'.expandtabs(2)", "a b"),
        ("'abc'.removeprefix('a').removesuffix('c')", "b"),
        ("'12'.isdigit() and 'ab'.isalpha()", True),
        ("'abab'.rfind('ab') + 'abab'.rindex('b')", 5),
    ],
)
def test_4_2_methods_answer_as_in_python(text: str, value: Any):
    found = parse_expression(text).evaluate({})

    assert found == value
    assert type(found) is type(value)


LARGE = "a" * 60_000


@pytest.mark.parametrize(
    "text",
    [
        "'a'.center(999999999)",
        "'a'.zfill(999999999)",
        "'a\\t'.expandtabs(999999999)",
        "large.replace('a', 'bb')",
        "'bb'.join(large.split('a'))",
        "large.rfind(large)",
        "large.rsplit(large)",
        "large.strip(large)",
    ],
)
def test_4_1_a_method_that_makes_too_much_or_works_too_long_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text).evaluate({"large": LARGE})
