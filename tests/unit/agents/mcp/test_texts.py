"""Limits on the texts of a server; the other parts of a schema are not changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from statewright.agents.mcp.texts import MAX_SCHEMA_TEXT, MAX_TEXT, truncate, truncate_schema

LONG = "D" * 2_000_000
SCHEMAS: dict[str, Any] = {
    "itself": {"description": LONG},
    "a field": {"properties": {"a": {"type": "string", "description": LONG}}},
    "a definition": {"$defs": {"A": {"description": LONG}}},
    "items": {"items": {"title": LONG}},
    "a union": {"anyOf": [{"$comment": LONG}, {"type": "null"}]},
    "further fields": {"additionalProperties": {"description": LONG}},
    "examples": {"properties": {"a": {"examples": [LONG]}}},
    "many fields": {"properties": {f"p{n}": {"description": "D" * 9_999} for n in range(500)}},
    "deep fields": {"properties": {"a": {"properties": {"b": {"items": {"description": LONG}}}}}},
    "fields with the names of keywords": {"properties": {"description": {"type": "string", "description": LONG}}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_texts_of_a_schema_are_truncated(name: str) -> None:
    schema = {"type": "object", **SCHEMAS[name]}
    before = json.dumps(schema)
    shorter = truncate_schema(schema)
    assert len(json.dumps(shorter)) < MAX_SCHEMA_TEXT + 30_000
    assert json.dumps(schema) == before
    assert shorter["type"] == "object"
    assert shorter.get("properties", {}).keys() == schema.get("properties", {}).keys()


def test_a_schema_within_the_limits_is_returned_itself() -> None:
    schema = {
        "type": "object",
        "description": "d",
        "title": None,
        "properties": {"description": {"type": "string"}, "a": {"anyOf": [{"type": "null"}], "default": None}},
        "required": ["description"],
        "examples": [{"a": 1}],
        "additionalProperties": False,
    }
    assert truncate_schema(schema) is schema


def test_enums_and_defaults_are_not_truncated() -> None:
    choice = {"enum": ["x" * 20_000], "default": {"description": "y" * 20_000}, "description": LONG}
    (shorter,) = truncate_schema({"properties": {"a": choice}})["properties"].values()
    assert (shorter["enum"], shorter["default"]) == (choice["enum"], choice["default"])
    assert shorter["description"] == f"{'D' * MAX_TEXT} [The description was cut off here.]"


def test_only_long_texts_are_truncated() -> None:
    assert truncate("x") == "x"
    assert truncate("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert truncate("xyz", "error", 2) == "xy [The error was cut off here.]"
