"""Stored forms of changes to fields that are smaller than the new value.

A channel's `delta` returns the new value or one of these; `replay.changed` rebuilds the new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class _Items:
    """Base of changes that consist of items."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.items!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(self.items) == list(other.items)

    __hash__ = None  # pyright: ignore  # its items may be unhashable


class Added(_Items):
    """Items that were appended to a list."""

    __slots__ = ()


class Merged(_Items):
    """Messages that were added, that replaced others of the same id, or that removed some."""

    __slots__ = ()
