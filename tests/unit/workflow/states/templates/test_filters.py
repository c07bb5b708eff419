"""The filters: their results, the values that they reject, and the limits of their work."""

from contextlib import suppress
from typing import Any

import pytest
from tests.work import spend_at_most

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import WorkLimitExceeded
from statewright.workflow.states.templates.filters import FILTER_NAMES, FILTERS, apply_filter
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing

PEOPLE = [{"name": "Bo", "age": 3}, {"name": "al", "age": 2}, {"name": "Cy", "age": 3}]


def call(name: str, *args: Any, **keywords: Any) -> Any:
    value, *others = args
    return apply_filter(Rendering({}), name, value, others, keywords)


@pytest.mark.parametrize(
    ("name", "args", "keywords", "expected"),
    [
        ("join", (["a", 1, True, None],), {}, "a1truenull"),
        ("join", ([{"n": 1}, {"n": 2}], "-", "n"), {}, "1-2"),
        ("length", ("abc",), {}, 3),
        ("count", ({"a": 1},), {}, 1),
        ("upper", (True,), {}, "TRUE"),
        ("lower", ("ÄB",), {}, "äb"),
        ("title", ("a b",), {}, "A B"),
        ("capitalize", ("aB",), {}, "Ab"),
        ("trim", (" a\n",), {}, "a"),
        ("trim", ("xax", "x"), {}, "a"),
        ("string", ([1],), {}, "[1]"),
        ("tojson", ("é",), {}, '"é"'),
        ("tojson", ({"a": 1}, 1), {}, '{\n "a": 1\n}'),
        ("safe", (5,), {}, 5),
        ("default", (Missing("x"), "d"), {}, "d"),
        ("default", ("", "d"), {}, ""),
        ("d", ("", "d"), {"boolean": True}, "d"),
        ("default", (None, "d"), {}, None),
        ("sort", ([2, 1],), {}, [1, 2]),
        ("sort", (["b", "A"],), {}, ["A", "b"]),
        ("sort", (["b", "A"], True), {}, ["b", "A"]),
        ("sort", (["a", "B"], False, True), {}, ["B", "a"]),
        ("sort", (PEOPLE,), {"attribute": "age,name"}, [PEOPLE[1], PEOPLE[0], PEOPLE[2]]),
        ("sort", (PEOPLE, True), {"attribute": "age"}, [PEOPLE[0], PEOPLE[2], PEOPLE[1]]),
        ("sort", ([{"n": {"m": 2}}, {"n": {"m": 1}}],), {"attribute": "n.m"}, [{"n": {"m": 1}}, {"n": {"m": 2}}]),
        ("sort", ([["a", 2], ["b", 1]],), {"attribute": "1"}, [["b", 1], ["a", 2]]),
        ("dictsort", ({"b": 1, "A": 2},), {}, [["A", 2], ["b", 1]]),
        ("dictsort", ({"b": 1, "A": 2},), {"by": "value"}, [["b", 1], ["A", 2]]),
        ("items", ({"a": 1},), {}, [["a", 1]]),
        ("list", ("ab",), {}, ["a", "b"]),
        ("first", ([1, 2],), {}, 1),
        ("last", ("ab",), {}, "b"),
        ("reverse", ("ab",), {}, "ba"),
        ("reverse", ([1, 2],), {}, [2, 1]),
        ("unique", (["a", "A", "b"],), {}, ["a", "b"]),
        ("unique", (PEOPLE,), {"attribute": "age"}, PEOPLE[:2]),
        ("min", ([3, 1],), {}, 1),
        ("max", (PEOPLE,), {"attribute": "age"}, PEOPLE[0]),
        ("sum", ([1, 2.5],), {}, 3.5),
        ("sum", (PEOPLE, "age", 10), {}, 18),
        ("groupby", (PEOPLE, "age"), {}, [[2, [PEOPLE[1]]], [3, [PEOPLE[0], PEOPLE[2]]]]),
        ("groupby", ([{"a": "x"}, {}], "a", "none"), {}, [["none", [{}]], ["x", [{"a": "x"}]]]),
        ("groupby", ([{"a": []}, {"a": [1]}], "a"), {}, [[[], [{"a": []}]], [[1], [{"a": [1]}]]]),
        ("batch", ([1, 2, 3], 2, 0), {}, [[1, 2], [3, 0]]),
        ("slice", ([1, 2, 3], 2, 0), {}, [[1, 2], [3, 0]]),
        ("map", (["a", "b"], "upper"), {}, ["A", "B"]),
        ("map", (PEOPLE,), {"attribute": "age"}, [3, 2, 3]),
        ("map", ([{}, {"a": 1}],), {"attribute": "a", "default": 0}, [0, 1]),
        ("map", ([["a"], ["b", "c"]], "join", "-"), {}, ["a", "b-c"]),
        ("select", ([0, 1, 2],), {}, [1, 2]),
        ("select", ([0, 1, 2], "odd"), {}, [1]),
        ("reject", ([0, 1, 2], "gt", 0), {}, [0]),
        ("selectattr", (PEOPLE, "age", "equalto", 2), {}, [PEOPLE[1]]),
        ("selectattr", ([{}, {"a": 1}], "a"), {}, [{"a": 1}]),
        ("rejectattr", ([{}, {"a": 1}], "a", "defined"), {}, [{}]),
        ("int", ("15",), {}, 15),
        ("int", ("1.9",), {}, 1),
        ("int", ("x", 7), {}, 7),
        ("int", ("ff",), {"base": 16}, 255),
        ("float", ("1.5",), {}, 1.5),
        ("float", (None,), {}, 0.0),
        ("abs", (-2,), {}, 2),
        ("round", (2.567, 1), {}, 2.6),
        ("round", (2.1, 0, "ceil"), {}, 3.0),
        ("round", (2.99, 1, "floor"), {}, 2.9),
        ("replace", ("aaa", "a", "b", 2), {}, "bba"),
        ("center", ("a", 3), {}, " a "),
        ("indent", ("a\nb\n\nc", 2), {}, "a\n  b\n\n  c"),
        ("indent", ("a\nb", ">"), {"first": True}, ">a\n>b"),
        ("truncate", ("one two three four", 10), {}, "one..."),
        ("truncate", ("short", 3), {}, "short"),
        ("truncate", ("one two three four", 10, True, "!"), {}, "one two t!"),
        ("wordcount", ("one two",), {}, 2),
        ("wordwrap", ("one two\nthree", 3), {}, "one\ntwo\nthr\nee"),
        ("format", ("%s is %d%% of %.1f", "x", 5, 2.25), {}, "x is 5% of 2.2"),
        ("escape", ("<a>",), {}, "&lt;a&gt;"),
        ("e", ("&",), {}, "&amp;"),
        ("e", ("'\"",), {}, "&#39;&#34;"),
        ("urlencode", ("a b/c",), {}, "a%20b/c"),
        ("urlencode", ({"a b": 1, "c": "d/e&"},), {}, "a+b=1&c=d%2Fe%26"),
        ("urlencode", ([["a", True], ["b", None]],), {}, "a=true&b=null"),
        ("unique", ([1, 1.0, True, "1", 0, False, None, 2.5],), {}, [1, "1", 0, None, 2.5]),
        ("unique", ([[1, {"a": True}], [1.0, {"a": 1}], [1]],), {}, [[1, {"a": True}], [1]]),
        ("sort", ({"b": 1, "a": 2},), {}, ["a", "b"]),
        ("join", ({"b": 1, "a": 2}, "-"), {}, "b-a"),
        ("batch", ({"b": 1, "a": 2}, 1), {}, [["b"], ["a"]]),
        ("max", ({"b": 1, "a": 2},), {}, "b"),
        ("select", ({"b": 1, "a": 2}, "eq", "a"), {}, ["a"]),
        ("map", ({"b": 1}, "upper"), {}, ["B"]),
        ("map", (["", "x"], "default", "d", True), {}, ["d", "x"]),
        ("map", (["", "x"], "default"), {"default_value": "d", "boolean": True}, ["d", "x"]),
        ("map", ([[1, 2], [3]],), {"attribute": -1}, [2, 3]),
        ("indent", ("a\r\nb\x0bc", 1), {}, "a\n b\n c"),
        ("wordwrap", ("a\tb  c",), {}, "a\tb  c"),
        (
            "wordwrap",
            ("aa-bb cc", 3),
            {"wrapstring": "|", "break_on_hyphens": False, "break_long_words": False},
            "aa-bb|cc",
        ),
        ("format", ("%s %s %d", True, None, True), {}, "true null 1"),
        ("replace", ("a1b", 1, 2), {}, "a2b"),
    ],
)
def test_2_3_filters_return_the_expected_values(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any], expected: Any
) -> None:
    result = call(name, *args, **keywords)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("name", "args", "keywords"),
    [
        ("join", ("text",), {}),
        ("join", ([{}], "", "n"), {}),
        ("length", (5,), {}),
        ("tojson", (1, 100), {}),
        ("sort", ("text",), {}),
        ("unique", ("text",), {}),
        ("batch", ("text", 2), {}),
        ("urlencode", ([1],), {}),
        ("truncate", ("text", 2), {}),
        ("sort", ([{}],), {"attribute": "a"}),
        ("sort", ([{}],), {"attribute": ["a"]}),
        ("sort", ([{}],), {"attribute": ".".join("a" * 101)}),
        ("sort", ([{}],), {"attribute": ",".join(["a.b"] * 60)}),
        ("sum", ([{}],), {"attribute": "a" * 1001}),
        ("format", ("%d", 2**2000), {}),
        ("round", (2**2000, 0, "ceil"), {}),
        ("sort", ([1, "a"],), {}),
        ("sum", (["a"],), {}),
        ("map", ([1],), {}),
        ("map", ([1], "nope"), {}),
        ("map", ([1], "map", "upper"), {}),
        ("select", ([1], "nope"), {}),
        ("items", ([1],), {}),
        ("dictsort", ({"a": 1},), {"by": "x"}),
        ("format", ("%999999999d", 1), {}),
        ("format", ("%(a)s", 1), {}),
        ("format", ("%*d", 1, 2), {}),
        ("format", ("%s",), {}),
        ("round", ("a", 0, "ceil"), {}),
        ("round", (1.5, 400), {}),
        ("batch", ([1], 0), {}),
        ("slice", ([1], 0), {}),
        ("wordwrap", ("a", 0), {}),
        ("upper", (1, 2), {}),
    ],
)
def test_2_3_invalid_values_and_arguments_are_rejected(
    name: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    with pytest.raises((ExpressionError, TypeError, ValueError)):
        call(name, *args, **keywords)


@pytest.mark.parametrize("name", sorted({*FILTERS} - {"default", "d"}))
def test_2_3_a_missing_value_stays_missing(name: str) -> None:
    missing = Missing("x")

    assert call(name, missing) is missing


LARGE_TEXT = "ab " * 100_000
LARGE_LIST = list(range(100_000))
DEEP: list[Any] = ["x"]
for _ in range(60):
    DEEP = [DEEP, DEEP]
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "batch": (2,),
    "center": (900_000,),
    "format": ("a",),
    "groupby": ("a",),
    "map": ("string",),
    "rejectattr": ("a",),
    "replace": ("a", "b"),
    "selectattr": ("a",),
    "slice": (2,),
}


@pytest.mark.parametrize("value", [LARGE_TEXT, LARGE_LIST, DEEP], ids=["text", "list", "deep"])
@pytest.mark.parametrize(
    "name", [name for name in FILTER_NAMES if name not in ("default", "d", "safe", "length", "count")]
)
@pytest.mark.sampled(5)
def test_4_1_repeated_work_of_a_filter_is_limited(name: str, value: Any) -> None:
    """Processing a large value once is cheap; thousands of times reach the limit."""
    rendering = Rendering({}, work=2_000_000)
    with spend_at_most(), suppress(ExpressionError, TypeError, ValueError, RecursionError):
        for _ in range(2_000):
            apply_filter(rendering, name, value, ARGUMENTS.get(name, ()), {})


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("center", ("a", 10**12)),
        ("indent", ("a\n" * 1000, 10**12)),
        ("batch", ([1], 10**12, 0)),
        ("slice", ([1], 10**12, 0)),
        ("replace", ("a" * 1000, "", "b" * 100_000)),
        ("join", (["a" * 1000] * 2, "b" * 1_000_000)),
        ("tojson", ([[[["a" * 900_000]]] * 2],)),
        ("wordwrap", ("a" * 500_000, 1)),
    ],
)
def test_4_1_a_result_that_is_too_large_is_rejected_before_it_is_built(name: str, args: tuple[Any, ...]) -> None:
    with spend_at_most(), pytest.raises(WorkLimitExceeded):
        call(name, *args)
