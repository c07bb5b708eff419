"""Stored forms of changes to fields that are smaller than the new value.

A channel's `delta` returns the new value or one of these; `replay.changed` rebuilds the new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Added:
    """Items that were appended to a list."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"Added({self.items!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Added) and list(self.items) == list(other.items)

    __hash__ = None  # pyright: ignore  # its items may be unhashable


class Merged:
    """Messages that were added, that replaced others of the same id, or that removed some."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"Merged({self.items!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Merged) and list(self.items) == list(other.items)

    __hash__ = None  # pyright: ignore  # its items may be unhashable
