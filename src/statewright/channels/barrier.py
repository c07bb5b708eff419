"""A channel that counts arrivals by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
            arrived |= self._expected([update] if isinstance(update, str) else update)
        return arrived

    def _expected(self, names: Iterable[str]) -> frozenset[str]:
        unknown = next((name for name in names if name not in self.names), None)
        if unknown is not None:
            raise InvalidUpdateError(
                f"{unknown!r} is not expected at this barrier. " + suggestion(unknown, self.names, noun="Expected")
            )
        return frozenset(names)
