"""The output schema of a transform node."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.workflow.states.nodes.config import ConfigReader
from statewright.workflow.states.nodes.transform.output_schema import OutputShape, read_shape


def shape(properties: Any = None, **more: Any) -> OutputShape:
    reader = ConfigReader({"output_schema": {"type": "object", "properties": properties or {}, **more}})
    result = read_shape(reader)
    assert reader.faults == []
    return result


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", 1, "1"),
        ("string", True, "true"),
        ("string", "x", "x"),
        ("integer", "11", 11),
        ("integer", 11.0, 11),
        ("integer", "-3", -3),
        ("integer", 10**30, 10**30),
        ("number", "1.5", 1.5),
        ("number", "2", 2),
        ("number", 2, 2),
        ("boolean", "TRUE", True),
        ("boolean", "false", False),
        ("boolean", 1, True),
        ("boolean", 0, False),
        (["integer", "null"], "5", 5),
        (["integer", "boolean"], "true", True),
        (["string", "array"], [1], [1]),
    ],
)
def test_2_10_scalars_are_coerced(kind: Any, value: Any, expected: Any) -> None:
    result = shape({"f": {"type": kind}}).coerce("f", value)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "x"),
        ("integer", 1.5),
        ("integer", True),
        ("integer", "inf"),
        ("number", "nan"),
        ("number", "1" * 101),
        ("number", ""),
        ("boolean", "yes"),
        ("boolean", 2),
        ("string", {"a": 1}),
        ("integer", [1]),
    ],
)
def test_2_10_values_that_cannot_be_coerced_are_errors(kind: str, value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=f"is not of type {kind}"):
        shape({"f": {"type": kind}}).coerce("f", value)


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        ({"f": {"type": "array"}}, "no list"),
        ({"f": {"type": "object"}}, 1),
        ({"f": {"enum": ["a"]}}, "b"),
        ({"f": {"type": "integer", "minimum": 10}}, 1),
        ({"f": {"type": "integer"}}, None),
        ({}, "x"),
    ],
)
def test_2_10_other_constraints_are_not_checked(properties: Any, value: Any) -> None:
    assert shape(properties).coerce("f", value) == value


def test_2_10_required_fields_must_be_present_and_not_null() -> None:
    output_shape = shape({"c": {"type": ["string", "null"]}}, required=["a", "b", "c", "d"])
    assert list(output_shape.iter_missing({"a": 0, "b": None, "c": None})) == ["b", "d"]


def test_a_schema_may_be_a_json_string() -> None:
    reader = ConfigReader({"output_schema": '{"required": ["a"]}'})
    assert read_shape(reader).required == ("a",)
    assert reader.faults == []


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("nonsense", ("config", "output_schema")),
        ({"required": [1]}, ("config", "output_schema", "required")),
        ({"properties": {"f": {"type": "text"}}}, ("config", "output_schema", "properties")),
        ({"properties": {"f": "string"}}, ("config", "output_schema", "properties")),
    ],
)
def test_errors_in_a_schema_are_reported(schema: Any, path: tuple[str, ...]) -> None:
    reader = ConfigReader({"output_schema": schema})
    read_shape(reader)
    assert [(fault.path, fault.is_error) for fault in reader.faults] == [(path, True)]
