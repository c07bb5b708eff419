"""The filters of placeholders, and values as words."""

from typing import Any

import pytest

from statewright.errors import ExpressionError
from statewright.workflow.states.templates.filters import FILTERS, OUTPUT_LIMIT, as_words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("plain", "plain"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, "null"),
        ({"a": ["é"]}, '{"a": ["é"]}'),
        ([], "[]"),
    ],
)
def test_2_3_values_stand_in_a_text_as_json_writes_them(value: Any, words: str):
    assert as_words(value) == words


@pytest.mark.parametrize(
    ("name", "args", "found"),
    [
        ("join", (["a", 1, True, None],), "a1truenull"),
        ("join", ([{"n": 1}, {"n": 2}], "-", "n"), "1-2"),
        ("length", ("abc",), 3),
        ("length", ({"a": 1},), 1),
        ("upper", (True,), "TRUE"),
        ("lower", ("ÄB",), "äb"),
        ("trim", (" a\n",), "a"),
        ("tojson", ("é",), '"é"'),
        ("tojson", ({"a": 1}, 1), '{\n "a": 1\n}'),
        ("safe", (5,), 5),
        ("sort", ([2, 1],), [1, 2]),
        ("sort", (["b", "A"],), ["A", "b"]),
        ("sort", (["b", "A"], True), ["b", "A"]),
        ("sort", (["a", "B"], False, True), ["B", "a"]),
        ("sort", ([{"n": {"m": 2}}, {"n": {"m": 1}}], False, False, "n.m"), [{"n": {"m": 1}}, {"n": {"m": 2}}]),
    ],
)
def test_2_3_the_filters(name: str, args: tuple[Any, ...], found: Any):
    assert FILTERS[name](*args) == found


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("join", ("text",)),
        ("join", ([{}], "", "n")),
        ("join", (["a" * 1000] * 2, "b" * OUTPUT_LIMIT)),
        ("length", (5,)),
        ("tojson", (1, 100)),
        ("tojson", (["a" * OUTPUT_LIMIT],)),
        ("sort", ({"a": 1},)),
    ],
)
def test_2_3_a_value_of_another_kind_is_refused(name: str, args: tuple[Any, ...]):
    with pytest.raises(ExpressionError):
        FILTERS[name](*args)
