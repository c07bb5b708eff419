"""Any value of a state can be encoded as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, computed_field

from statewright.server.http.encode import encode, error_response, success_response


class Odd:
    def __str__(self) -> str:
        return "an odd thing"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")


VALUES: dict[str, tuple[Any, Any]] = {
    "instant": (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
    "not a number": ({"a": float("nan"), "b": float("inf")}, {"a": None, "b": None}),
    "bytes": (b"\xff\x00", "_wA="),
    "lone surrogate": ({"a": "\ud800", "b": 1}, {"a": "\ud800", "b": 1}),
    "lone surrogate as a name": ({"\udfff": [1]}, {"\udfff": [1]}),
    "unknown class": ({"a": Odd()}, {"a": "an odd thing"}),
    "class without text": ([Broken()], ["<Broken>"]),
    "names that are not strings": ({1: "a", (1, 2): "b"}, {"1": "a", "1,2": "b"}),
    "a set": ({"a": {1}}, {"a": [1]}),
    "large number": (10**60, 10**60),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_value_can_be_encoded(name: str):
    value, expected = VALUES[name]
    assert json.loads(encode(value)) == expected


@pytest.mark.parametrize("key", [None, True, 1, 1.5, (1, 2), b"x"])
def test_a_key_is_encoded_the_same_by_the_fallback(key: object):
    fast, slow = json.loads(encode({key: 0})), json.loads(encode({key: 0, "\ud800": 0}))
    assert set(slow) == {*fast, "\ud800"}


def test_a_model_whose_computed_field_raises_is_encoded_as_text():
    class Broken(BaseModel):
        n: int

        @computed_field
        @property
        def half(self) -> float:
            raise KeyError("half")

    assert json.loads(encode({"a": [Broken(n=1)], "b": 2})) == {"a": ["<Broken>"], "b": 2}


def test_an_integer_that_is_too_large_for_python_to_write_is_described():
    assert json.loads(encode({"\ud800": 10**5000}))["\ud800"] == "an integer of 16610 bits"


def test_deeply_nested_values_are_truncated():
    value: Any = 1
    for _ in range(1000):
        value = [value]
    assert b'"..."' in encode(value)


def test_the_encoding_is_one_line_even_for_multiline_strings():
    assert b"\n" not in encode({"a": "one\ntwo\r\n"})


def test_responses_have_an_envelope():
    assert json.loads(success_response({"a": 1}).body) == {"success": True, "data": {"a": 1}}
    assert json.loads(success_response([], meta={"page": 1}).body)["meta"] == {"page": 1}
    refused = error_response(409, "CONFLICT", "taken", {"x": 1}, headers={"retry-after": "1"})
    assert json.loads(refused.body) == {
        "success": False,
        "error": {"code": "CONFLICT", "message": "taken", "details": {"x": 1}},
    }
    assert (refused.status_code, refused.headers["retry-after"]) == (409, "1")
