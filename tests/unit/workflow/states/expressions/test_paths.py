"""Items of an iteration (2.6), pointers (2.7) and paths (1.3, 2.3, 2.10)."""

from typing import Any

import pytest

from statewright.errors import RoutingError
from statewright.workflow.states.expressions.paths import (
    MISSING,
    follow_path,
    get_at_path,
    get_at_pointer,
    parse_path,
    resolve_items,
)

NESTED = {
    "response": {"results": [{"errors": ["e1", "e2"], "status": "failed"}, {"errors": ["e3"]}]},
    "a/b": {"m~n": [1]},
    "": ["empty"],
}


@pytest.mark.parametrize(
    ("result", "iter_key", "items"),
    [
        (["a", "b"], ".", ["a", "b"]),
        (["a", "b"], "unused", ["a", "b"]),
        (["a", "b"], "_", ["a", "b"]),
        ([], ".", []),
        ({"items": ["f1", "f2"], "count": 2}, "items", ["f1", "f2"]),
        ({"items": []}, "items", []),
        ({"items": 5}, "items", [5]),
        ({"items": None}, "items", [None]),
        ({"items": {"a": 1}}, "items", [{"a": 1}]),
        ({"items": "text"}, "items", ["text"]),
        ({"a": 1}, ".", [{"a": 1}]),
        ({".": [1]}, ".", [{".": [1]}]),
        ("text", "items", ["text"]),
        (5, ".", [5]),
        (None, "items", [None]),
        (False, ".", [False]),
        (NESTED, "/response/results", NESTED["response"]["results"]),
        (NESTED, "/response/results/0/errors", ["e1", "e2"]),
        (NESTED, "/response/results/1", [{"errors": ["e3"]}]),
        (NESTED, "/response/results/0/status", ["failed"]),
        (NESTED, "/a~1b/m~0n", [1]),
        (NESTED, "/", ["empty"]),
        ([[1], [2]], "/1", [2]),
        ({"body": '{"users": [1, 2]}'}, "/body/users", [1, 2]),
        ('{"users": [1, 2]}', "/users", [1, 2]),
        ({"body": "[1, 2]"}, "/body", ["[1, 2]"]),
        ({"body": "[1, 2]"}, "/body/", [1, 2]),
    ],
)
def test_2_6_items_are_resolved(result: Any, iter_key: str, items: list[Any]):
    assert resolve_items(result, iter_key) == items


def test_2_6_the_error_for_a_missing_key_lists_the_existing_keys():
    with pytest.raises(RoutingError, match=r"no key 'itms' .* Did you mean 'items'\? Keys: count, items"):
        resolve_items({"items": [1], "count": 1}, "itms")


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("/response/reslts", "at /response there is no 'reslts'. Did you mean 'results'"),
        ("/response/results/7/errors", "at /response/results there is no '7'. There is a list of 2"),
        ("/response/results/-1", "no '-1'"),
        ("/response/results/01", "no '01'"),
        ("/response/results/-", "no '-'"),
        ("/response/results/0/status/deep", "There is the value 'failed'"),
        ("/nope", "at the beginning there is no 'nope'"),
    ],
)
def test_2_6_the_error_for_a_pointer_says_how_far_it_was_followed(pointer: str, expected: str):
    with pytest.raises(RoutingError) as raised:
        resolve_items(NESTED, pointer)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("value", "pointer", "expected"),
    [
        ({"a": [1, 2]}, "/a", [1, 2]),
        ({"a": 5}, "/a", 5),
        ({"a": "text"}, "/a", "text"),
        ({"a": None}, "/a", None),
        ({"a": 1}, "", {"a": 1}),
        ('{"a": {"b": 1}}', "/a/b", 1),
        ({"a": '{"b": "{\\"c\\": 3}"}'}, "/a/b/c", 3),
        ({"a": '{"b": 1}'}, "/a", '{"b": 1}'),
        ({"a": '{"b": 1}'}, "/a/", {"b": 1}),
        ({"a": {"": 7}}, "/a/", 7),
        ({"a": "plain"}, "/a/", "plain"),
        ({"ключ": {"a b": 1}}, "/ключ/a b", 1),
        ({"0": "key"}, "/0", "key"),
    ],
)
def test_2_7_a_pointer_keeps_the_type_of_the_value(value: Any, pointer: str, expected: Any):
    assert get_at_pointer(value, pointer) == expected


@pytest.mark.parametrize("pointer", ["a/b", "a", "/a~2b", "/a~"])
def test_2_7_invalid_pointers_are_rejected(pointer: str):
    with pytest.raises(RoutingError, match="not a JSON pointer"):
        get_at_pointer({"a": 1}, pointer)


def test_a_pointer_does_not_lead_into_text_other_than_json():
    with pytest.raises(RoutingError):
        get_at_pointer({"a": "prose with {'b': 1}"}, "/a/b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("name", "Ann"),
        ("rows[0]", {"k": 1}),
        ("rows[-1].k", 2),
        ("rows[0:1]", [{"k": 1}]),
        ("rows[1:]", [{"k": 2}]),
        ("rows[:-1]", [{"k": 1}]),
        ("rows[0:2][1].k", 2),
        ("rows.1.k", 2),
        ('deep["a key"].x-y', 3),
        ("deep['a key']['x-y']", 3),
        ("größe", 9),
    ],
)
def test_2_10_paths_are_followed(path: str, expected: Any):
    value = {"name": "Ann", "rows": [{"k": 1}, {"k": 2}], "deep": {"a key": {"x-y": 3}}, "größe": 9}

    assert get_at_path(value, path) == expected


@pytest.mark.parametrize(
    "path", ["", "a..b", ".a", "a.", "a[", "a[x]", "a[0", "a]", "a b", "a[1:2:3]", "[0]", "a()", "a['x"]
)
def test_invalid_paths_are_rejected(path: str):
    assert parse_path(path) is None
    with pytest.raises(RoutingError, match="is not a path"):
        get_at_path({"a": 1}, path)


@pytest.mark.parametrize(
    "path", ["x", "a.x", "rows[5]", "rows[-3]", "rows.x", "a[0]", "a[0:1]", "text.upper", "a.__class__"]
)
def test_a_path_to_a_missing_value_is_an_error(path: str):
    with pytest.raises(RoutingError, match="does not exist"):
        get_at_path({"a": {}, "rows": [1, 2], "text": "t"}, path)


def test_paths_read_keys_but_no_attributes():
    assert follow_path({"items": 1}, ("items",)) == 1
    assert follow_path({}, ("items",)) is MISSING
    assert follow_path("text", ("upper",)) is MISSING
    assert follow_path(5, ("real",)) is MISSING
