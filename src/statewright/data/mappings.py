"""A rule for mappings with optional values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def without_none(values: Mapping[str, T | None]) -> dict[str, T]:
    """Return a copy of a mapping without the keys whose value is None."""
    return {name: value for name, value in values.items() if value is not None}
