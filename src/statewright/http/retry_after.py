"""For how long a service asks to be left alone: the header Retry-After of its answer (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol


class Headers(Protocol):
    """Headers of an answer, by their names in small letters."""

    def get(self, name: str, /) -> object: ...


def retry_after(headers: Headers | Mapping[str, object], now: datetime) -> float | None:
    """Seconds from `now` on; None if the answer does not say. Some say milliseconds, in `retry-after-ms`."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    written = headers.get("retry-after") or headers.get("Retry-After")
    seconds = _number(written)
    return seconds if seconds is not None else _until(written, now)


def _number(written: object) -> float | None:
    try:
        found = float(str(written))
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def _until(written: object, now: datetime) -> float | None:
    """Seconds until a date of HTTP."""
    try:
        date = parsedate_to_datetime(str(written))
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
