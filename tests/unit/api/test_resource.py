"""Resources parsed from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from statewright.api.resource import Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner(Resource):
    step_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Resource):
    created_at: datetime
    ended_at: datetime | None
    inner: Inner
    others: tuple[Inner, ...]
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    anything: Any
    added_later: int = 3


DATA: dict[str, Any] = {
    "createdAt": "2026-01-01T01:00:00+01:00",
    "endedAt": None,
    "inner": {"stepName": "a"},
    "others": [{"stepName": "b", "new": 1}],
    "tags": ["x"],
    "metadata": {"a_b": {"cD": 1}},
    "anything": [{"e_f": 1}],
    "unknown": True,
}


def test_each_field_is_read_by_its_type() -> None:
    value = Outer.from_json(DATA)
    assert value.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert (value.ended_at, value.inner.step_name, value.tags) == (None, "a", ("x",))
    assert [item.step_name for item in value.others] == ["b"]
    assert (value.metadata, value.anything) == (DATA["metadata"], DATA["anything"])


def test_unknown_fields_are_in_raw() -> None:
    value = Outer.from_json(DATA)
    assert value.raw is DATA
    assert value.others[0].raw["new"] == 1
    assert "raw" not in repr(value)


def test_optional_fields_missing_from_an_older_service_are_none() -> None:
    older = {name: field for name, field in DATA.items() if name not in ("endedAt", "anything")}
    value = Outer.from_json(older)
    assert (value.ended_at, value.anything, value.added_later) == (None, None, 3)
    assert value == Outer.from_json({**older, "new": 1})


def test_a_missing_required_field_is_refused() -> None:
    with pytest.raises(KeyError, match="createdAt"):
        Outer.from_json({name: field for name, field in DATA.items() if name != "createdAt"})
