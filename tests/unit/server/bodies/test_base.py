"""Types of fields in bodies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from statewright.server.http.body import Instant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T09:00:00Z", datetime(2026, 1, 31, 9, tzinfo=UTC)),
        ("2026-01-31T09:00:00.5+01:00", datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31 09:00Z", datetime(2026, 1, 31, 9, tzinfo=UTC)),
    ],
)
def test_instants_are_converted_to_utc(text: str, expected: datetime):
    assert TypeAdapter(Instant).validate_python(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-31T09:00:00",
        "2026-01-31",
        "1700000000",
        1700000000,
        1.5,
        True,
        "",
        "tomorrow",
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_invalid_instants_are_refused(value: Any):
    with pytest.raises(ValidationError):
        TypeAdapter(Instant).validate_python(value)
