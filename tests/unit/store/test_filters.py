"""Filters of searches: operators, paths, and missing values."""

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
    "conditions",
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
def test_a_value_matches_if_every_condition_holds(conditions: dict[str, Any]) -> None:
    assert matches(VALUE, conditions)


@pytest.mark.parametrize(
    "conditions",
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
def test_a_value_does_not_match_if_one_condition_fails(conditions: dict[str, Any]) -> None:
    assert not matches(VALUE, conditions)


@pytest.mark.parametrize(
    ("condition", "expected"),
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
def test_missing_fields_match_only_negative_conditions(path: str, condition: Any, expected: bool) -> None:
    assert matches(VALUE, {path: condition}) is expected


@pytest.mark.parametrize(
    "conditions",
    [{"n": {"$gt": "a"}}, {"none": {"$lt": 3}}, {"text": {"$gte": 3}}, {"n": {"$contains": 3}}, {"n": {"$in": 3}}],
)
def test_comparisons_of_different_types_do_not_match(conditions: dict[str, Any]) -> None:
    assert not matches(VALUE, conditions)


def test_a_dict_without_operators_is_compared_for_equality() -> None:
    assert matches({"price": {"usd": 3}}, {"price": {"usd": 3}})
    assert not matches({"price": {"usd": 3}}, {"price": {"usd": {"$gt": 2}}})


@pytest.mark.parametrize(
    ("operator", "message"),
    [("$gtt", r"'\$gtt'.*Did you mean '\$gt'"), ("$regex", r"Unknown operator '\$regex'.*Operators: \$contains")],
)
def test_an_unknown_operator_is_refused_with_the_known_ones(operator: str, message: str) -> None:
    with pytest.raises(InvalidUpdateError, match=message):
        matches(VALUE, {"n": {operator: 3}})


def test_an_empty_value_matches_only_the_empty_filter() -> None:
    assert matches({}, {})
    assert not matches({}, {"a": None})
