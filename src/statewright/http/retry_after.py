"""The header Retry-After of a response (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol


class Headers(Protocol):
    """Response headers by lowercase names."""

    def get(self, name: str, /) -> object: ...


def retry_after(headers: Headers | Mapping[str, object], now: datetime) -> float | None:
    """Return the seconds to wait from `now`; None without the header. Some services send `retry-after-ms` instead."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    value = headers.get("retry-after") or headers.get("Retry-After")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now)


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(value: object, now: datetime) -> float | None:
    """Return the seconds until an HTTP date."""
    try:
        date = parsedate_to_datetime(str(value))
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
