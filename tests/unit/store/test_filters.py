"""Which values meet a filter."""

from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.store.filters import matches

VALUE: dict[str, Any] = {
    "n": 3,
    "zero": 0,
    "none": None,
    "text": "abc",
    "tags": ["a", "b"],
    "empty": {},
    "author": {"name": "Anna", "home": {"town": "Ulm"}},
    "dotted.name": "kept",
}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"n": 3},
        {"n": 3.0},
        {"zero": 0},
        {"none": None},
        {"tags": ["a", "b"]},
        {"empty": {}},
        {"author": {"name": "Anna", "home": {"town": "Ulm"}}},
        {"author.name": "Anna"},
        {"author.home.town": "Ulm"},
        {"dotted.name": "kept"},
        {"n": 3, "text": "abc"},
        {"n": {"$eq": 3}},
        {"n": {"$ne": 4}},
        {"n": {"$gt": 2}},
        {"n": {"$gte": 3}},
        {"n": {"$lt": 4}},
        {"n": {"$lte": 3}},
        {"n": {"$gte": 3, "$lt": 4}},
        {"n": {"$in": [1, 3]}},
        {"n": {"$nin": [1, 2]}},
        {"text": {"$gt": "abb"}},
        {"text": {"$contains": "b"}},
        {"tags": {"$contains": "b"}},
        {"author": {"$contains": "name"}},
        {"author.name": {"$in": ["Anna"]}},
        {"n": {"$exists": True}},
        {"none": {"$exists": True}},
        {"none": {"$eq": None}},
    ],
)
def test_a_value_meets_a_filter_if_every_condition_holds(wanted: dict[str, Any]) -> None:
    assert matches(VALUE, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"n": 4},
        {"n": "3"},
        {"n": None},
        {"zero": None},
        {"zero": False, "n": 4},
        {"none": 0},
        {"tags": ["a"]},
        {"author": {"name": "Anna"}},
        {"author.name": "Bert"},
        {"author.name.first": "Anna"},
        {"author.nobody": None},
        {"tags.a": "a"},
        {"n": 3, "text": "x"},
        {"n": {"$eq": 4}},
        {"n": {"$ne": 3}},
        {"n": {"$gt": 3}},
        {"n": {"$gte": 4}},
        {"n": {"$lt": 3}},
        {"n": {"$lte": 2}},
        {"n": {"$gte": 1, "$lt": 3}},
        {"n": {"$in": []}},
        {"n": {"$nin": [3]}},
        {"text": {"$contains": "x"}},
        {"tags": {"$contains": "x"}},
        {"n": {"$exists": False}},
        {"none": {"$exists": False}},
    ],
)
def test_one_condition_that_does_not_hold_is_enough(wanted: dict[str, Any]) -> None:
    assert not matches(VALUE, wanted)


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        (None, False),
        (3, False),
        ({}, False),
        ({"$eq": None}, False),
        ({"$lt": 3}, False),
        ({"$in": [None]}, False),
        ({"$exists": True}, False),
        ({"$exists": False}, True),
        ({"$ne": 3}, True),
        ({"$nin": [3]}, True),
        ({"$ne": 3, "$nin": [4]}, True),
        ({"$ne": 3, "$gt": 1}, False),
    ],
)
@pytest.mark.parametrize("path", ["missing", "author.missing", "n.inside"])
def test_what_is_not_there_is_only_unlike_other_things(path: str, condition: Any, met: bool) -> None:
    assert matches(VALUE, {path: condition}) is met


@pytest.mark.parametrize(
    "wanted",
    [{"n": {"$gt": "a"}}, {"none": {"$lt": 3}}, {"text": {"$gte": 3}}, {"n": {"$contains": 3}}, {"n": {"$in": 3}}],
)
def test_values_of_different_kinds_are_in_no_order(wanted: dict[str, Any]) -> None:
    assert not matches(VALUE, wanted)


def test_a_dict_without_operators_is_a_value_to_equal() -> None:
    assert matches({"price": {"usd": 3}}, {"price": {"usd": 3}})
    assert not matches({"price": {"usd": 3}}, {"price": {"usd": {"$gt": 2}}})


@pytest.mark.parametrize(
    ("operator", "said"),
    [("$gtt", r"'\$gtt'.*Did you mean '\$gt'"), ("$regex", r"Unknown operator '\$regex'.*Operators: \$contains")],
)
def test_an_unknown_operator_is_an_error_that_lists_the_known(operator: str, said: str) -> None:
    with pytest.raises(InvalidUpdateError, match=said):
        matches(VALUE, {"n": {operator: 3}})


def test_an_empty_value_meets_the_empty_filter_alone() -> None:
    assert matches({}, {})
    assert not matches({}, {"a": None})
