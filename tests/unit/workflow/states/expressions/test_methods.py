"""The methods of expressions, by type."""

import ast
from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.expressions.compile import compile_tree
from statewright.workflow.states.expressions.evaluation import WORK_LIMIT, Evaluation
from statewright.workflow.states.expressions.functions import METHODS, call_method

OMITTED = {"encode", "format", "format_map", "maketrans", "translate"}
"""Methods that give access to attributes, or return values that JSON does not have."""


def test_4_2_all_harmless_methods_of_strings_are_supported() -> None:
    assert METHODS[str].keys() == {name for name in dir(str) if not name.startswith("_")} - OMITTED | {"contains"}


def test_4_2_methods_of_lists_and_maps_do_not_change_them() -> None:
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
def test_4_2_methods_return_the_same_as_in_python(text: str, value: Any):
    result = parse_expression(text).evaluate({})

    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("text.split()", 10 * 2_000),
        ("wide.split()", 10 * 2_000),
        ("text.split(' ')", 10 * 2_000),
        ("text.split(' ', 5)", 4_000),
        ("text.splitlines()", 4_000),
        ("text.startswith(affixes)", 100 * 1_000),
        ("text.endswith(affixes)", 100 * 1_000),
        ("map.items()", 10 * 100),
        ("map.copy()", 10 * 100),
        ("list(text)", 10 * 4_000),
        ("text == other", 4_000),
        ("affixes == affixes", 100 * 1_000),
    ],
)
def test_4_1_methods_spend_work_for_their_input_and_output(text: str, units: int) -> None:
    scope = {
        "text": "a " * 2_000,
        "wide": "я\u2003" * 2_000,
        "other": "a " * 1_999 + "b ",
        "affixes": ["b" * 1_000] * 100,
        "map": {str(number): number for number in range(100)},
    }
    tree = ast.parse(text, mode="eval").body
    evaluation = Evaluation(scope)
    step, _ = compile_tree(tree)
    step(evaluation)

    assert units <= WORK_LIMIT - evaluation.work_left <= 2 * units + 1_000


def test_getting_a_key_of_a_map_costs_no_work() -> None:
    evaluation = Evaluation({})
    assert call_method(evaluation, {str(number): number for number in range(1_000)}, "get", ["7"]) == 7
    assert evaluation.work_left == WORK_LIMIT


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
def test_4_1_methods_with_too_much_output_or_work_are_rejected(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text).evaluate({"large": LARGE})
