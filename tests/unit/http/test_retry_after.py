"""The delay that a service asks for in its headers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from statewright.http import retry_after

NOW = datetime(2026, 1, 31, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "120"}, 120.0),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "3"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "3"}, 3.0),
        ({"retry-after": "Sat, 31 Jan 2026 09:01:30 GMT"}, 90.0),
        ({"retry-after": "Sat, 31 Jan 2026 08:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 31 Jan 2026 10:01:30 -0000"}, 3690.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sat, 99 Jan 2026 08:00:00 GMT"}, None),
    ],
)
def test_the_delay_is_read_from_headers(headers: dict[str, object], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
