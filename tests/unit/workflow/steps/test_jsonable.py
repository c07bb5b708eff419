"""Conversion of values to plain JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.errors import InvalidUpdateError
from statewright.workflow.steps.result import to_jsonable, to_jsonable_map


@dataclass
class Lead:
    name: str
    at: datetime


def test_dataclasses_and_tuples_are_converted() -> None:
    lead = Lead("Ann", datetime(2026, 1, 2, tzinfo=UTC))
    assert to_jsonable({"lead": lead, "t": (1, float("nan"))}, "x") == {
        "lead": {"name": "Ann", "at": "2026-01-02T00:00:00Z"},
        "t": [1, None],
    }


def test_other_values_are_rejected() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value in (object(), {"a": object()}, circle):
        with pytest.raises(InvalidUpdateError, match="The answer cannot be written as JSON"):
            to_jsonable(value, "The answer")


@pytest.mark.parametrize("value", [None, [], "text", 3, [("a", 1)]])
def test_a_map_is_required(value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"The input is .* Use a map."):
        to_jsonable_map(value, "The input")
