"""The methods of expressions, by type."""

from typing import Any

import pytest

from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.methods import METHODS


def test_4_2_the_tables_are_those_of_the_language():
    assert {kind.__name__: set(table) for kind, table in METHODS.items()} == {
        "str": {
            "lower",
            "upper",
            "strip",
            "lstrip",
            "rstrip",
            "startswith",
            "endswith",
            "contains",
            "replace",
            "split",
            "title",
            "count",
            "find",
        },
        "list": {"count", "index", "contains"},
        "dict": {"get", "keys", "values", "items"},
    }


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
    ],
)
def test_4_2_methods_answer_as_in_python(text: str, value: Any):
    found = parse_expression(text).evaluate({})

    assert found == value
    assert type(found) is type(value)
