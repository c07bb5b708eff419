"""Changes of a field in a form that is smaller than the new value, for storage.

The method `delta` of a channel returns either the new value or an instance of one of these classes, from which
`replay.apply_change` rebuilds the new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class _Items:
    """Base class of changes that consist of items."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.items!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(self.items) == list(other.items)

    __hash__ = None  # pyright: ignore  # the items may be unhashable


class Added(_Items):
    """Items that were appended to a list."""

    __slots__ = ()


class Merged(_Items):
    """Messages that were added, or that replaced messages with the same ids, and removals of messages."""

    __slots__ = ()
