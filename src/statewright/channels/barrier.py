"""A channel that counts arrivals by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from statewright.channels.channel import MISSING, Channel
from statewright.errors import InvalidUpdateError, suggestion


class Barrier(Channel):
    """The set of names that have arrived; when all have, the next arrival begins a new round.

    An update is one name or a collection of names. A name that is not expected is an InvalidUpdateError.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)

    def start(self) -> frozenset[str]:
        return frozenset()

    def apply(self, current: Any, updates: Sequence[Any]) -> frozenset[str]:
        arrived: frozenset[str] = frozenset() if current is MISSING or current == self.names else current
        for update in updates:
            arrived |= self._expected(_names(update))
        return arrived

    def _expected(self, names: Iterable[str]) -> frozenset[str]:
        unknown = next((name for name in names if name not in self.names), None)
        if unknown is not None:
            raise InvalidUpdateError(
                f"{unknown!r} is not expected at this barrier. " + suggestion(unknown, self.names, noun="Expected")
            )
        return frozenset(names)


def _names(update: Any) -> list[str]:
    """The names in an update. Raises InvalidUpdateError for what is neither a name nor a collection of them."""
    several = isinstance(update, Iterable) and not isinstance(update, str)
    names = list(cast(Iterable[Any], update)) if several else [cast(Any, update)]
    if not all(isinstance(name, str) for name in names):
        raise InvalidUpdateError(f"A barrier was given {update!r}. Give a name, or a collection of names.")
    return names
