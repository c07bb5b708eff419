"""One policy for values as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from statewright.data.jsonable import as_json, copy_json, quoted, simplified, to_jsonable, to_strict_jsonable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@dataclass
class Point:
    x: int
    tags: frozenset[str] = field(default_factory=frozenset[str])


class Model(BaseModel):
    at: date


class Colour(Enum):
    RED = "red"


class Described:
    def to_dict(self) -> dict[str, int]:
        return {"a": 1}


class Opaque:
    def __str__(self) -> str:
        return "opaque"


class Broken:
    def __str__(self) -> str:
        raise KeyError("x")

    def to_dict(self) -> object:
        raise KeyError("x")


@given(JSON)
def test_json_is_unchanged(value: Any) -> None:
    assert as_json(value) == to_jsonable(value) == to_strict_jsonable(value) == copy_json(value) == value


@pytest.mark.parametrize("convert", [as_json, to_jsonable])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        ({"a": (-math.inf,)}, {"a": ["-Infinity"]}),
        (b"\xff\xfe", "__4="),
        (bytearray(b"text"), "dGV4dA=="),
        ({1}, [1]),
        (Point(1), {"x": 1, "tags": []}),
        (Model(at=date(2026, 1, 2)), {"at": "2026-01-02"}),
        ([Described(), Opaque()], [{"a": 1}, "opaque"]),
        (Broken(), "<Broken>"),
        (ValueError("no luck"), "ValueError: no luck"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00Z"),
        (timedelta(seconds=3), "PT3S"),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Point, repr(Point)),
        (len, "<built-in function len>"),
        ({(1, 2): 3, None: 4, True: 5, 1.5: 6}, {"1,2": 3, "None": 4, "true": 5, "1.5": 6}),
    ],
)
def test_both_conversions_follow_the_policy(convert: Any, value: Any, expected: Any) -> None:
    assert convert(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({frozenset[int](): 1}, {"frozenset()": 1}),
        ({Opaque(): 1, b"x": 2}, {"opaque": 1, "eA==": 2}),
        ({"\ud800": "a\ud800"}, {"\ufffd": "a\ufffd"}),
    ],
)
def test_for_display_anything_becomes_json(value: Any, expected: Any) -> None:
    assert to_jsonable(value) == expected


def test_deep_and_circular_values_are_cut_for_display_and_refused_otherwise() -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for value in (circle, deep):
        assert '["..."]' in json.dumps(to_jsonable(value))
        with pytest.raises(ValueError, match=r"(?i)circular|depth"):
            as_json(value)
    with pytest.raises(ValueError, match="surrogates"):
        as_json("a\ud800")


def test_sets_have_a_stable_order() -> None:
    assert to_jsonable({"x": {"b", "c", "a"}}) == {"x": ["a", "b", "c"]}
    assert simplified(frozenset({1, "a"})) == ["a", 1]


def test_an_iterator_is_not_consumed() -> None:
    numbers = iter([1, 2])
    assert "iterator" in to_jsonable(numbers)
    assert list(numbers) == [1, 2]


def test_one_level_can_be_converted_differently() -> None:
    assert to_jsonable([Opaque(), 1], lambda value: {"text": str(value)}) == [{"text": "opaque"}, 1]


def test_the_strict_conversion_refuses_what_it_would_replace() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (Opaque(), {"a": Opaque()}, {frozenset[int](): 1}, b"\xff", circle):
        with pytest.raises(ValueError, match=r"serialize|utf-8|Circular|object key"):
            to_strict_jsonable(value)
    assert to_strict_jsonable({"t": (Point(1), math.nan, b"text")}) == {"t": [{"x": 1, "tags": []}, None, "text"]}


def test_copies_share_nothing() -> None:
    value = {"a": [{"b": 1}]}
    for copy in (as_json(value), to_jsonable(value), to_strict_jsonable(value), copy_json(value)):
        copy["a"][0]["b"] = 2
        copy["a"].append(3)
    assert value == {"a": [{"b": 1}]}


def test_values_are_quoted_in_messages() -> None:
    assert quoted({"a": [True, None, "ä"]}) == '{"a": [true, null, "ä"]}'
    assert quoted("x" * 100) == '"' + "x" * 76 + "..."
