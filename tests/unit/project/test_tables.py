"""Types of values in tables."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from statewright.project import tables
from statewright.project.tables import check_variable


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("Count", [1, 99], [0, 1.0, True, "1"]),
        ("Concurrency", [1, 100], [0, 101]),
        ("Port", [0, 65535], [-1, 65536, True]),
        ("Duration", [1, 0.5], [0, -1, True, "1", float("nan")]),
        ("Temperature", [0, 2, 0.5], [-1, 2.1, False, "x"]),
        ("Amount", [1, 0.5], [0, float("inf"), float("nan")]),
        ("Strings", [(), ("a",)], ["a", [1], {}]),
        ("Durability", ["sync", "async"], ["exit", 1]),
    ],
)
def test_values_are_accepted_unchanged_or_rejected(name: str, valid: list[Any], invalid: list[Any]) -> None:
    adapter = TypeAdapter[Any](getattr(tables, name))
    for value in valid:
        result = adapter.validate_python(value)
        assert (result, type(result)) == (value, type(value))
    for value in invalid:
        with pytest.raises(ValidationError):
            adapter.validate_python(value)


@pytest.mark.parametrize("value", ["env:", "env:1", "env:A B", "env:Ä"])
def test_variable_references_need_a_valid_name(value: str) -> None:
    with pytest.raises(ValueError, match="not a valid variable name"):
        check_variable(value)
    assert [check_variable(other) for other in ("env:A_1", "environment", 5)] == ["env:A_1", "environment", 5]
