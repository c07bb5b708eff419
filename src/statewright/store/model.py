"""What a store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statewright.errors import InvalidUpdateError

Namespace = tuple[str, ...]
"""Labels from the general to the particular: `("users", "42", "memories")`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One value under one key of one namespace."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchItem(Item):
    """An item that a search found."""

    score: float | None = None
    """How near it is to the query; None where there was none."""


def checked_namespace(namespace: Namespace) -> Namespace:
    """The namespace. Raises InvalidUpdateError for an empty one, and for labels that are empty or hold a dot."""
    bad = [label for label in namespace if not label or "." in label]
    if not namespace or bad:
        found = f"the label {bad[0]!r}" if bad else "no label"
        raise InvalidUpdateError(
            f"The namespace {namespace!r} has {found}. Give at least one label; labels are not empty and hold no dot."
        )
    return namespace
