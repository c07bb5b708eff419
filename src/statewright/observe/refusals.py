"""Which errors say that an update was refused, each told once, whichever way it comes up.

The error of a task is told when its attempt fails, again when its run ends by it, and once more by each graph around
that run. It is the same object everywhere, and that is how it is known again.
"""

from __future__ import annotations

import threading
from typing import Final
from weakref import WeakSet

from statewright.errors import ConflictingWrites, InvalidUpdateError, MutatedState, StatewrightError, UnknownTarget
from statewright.events import Event
from statewright.observe.event_error import error_of

REFUSED: Final = (InvalidUpdateError, ConflictingWrites, UnknownTarget, MutatedState)
"""What is raised for an answer of a node that cannot become part of the state, or says to go where it cannot."""


class Refusals:
    """Finds refused updates in events."""

    def __init__(self) -> None:
        self._told: WeakSet[BaseException] = WeakSet()
        self._lock = threading.Lock()

    def found_in(self, event: Event) -> tuple[str, StatewrightError] | None:
        """The node whose update was refused, and the error; None if there is none, or it was found before."""
        error, node = error_of(event)
        if not isinstance(error, REFUSED):
            return None
        with self._lock:
            if error in self._told:
                return None
            self._told.add(error)
        return _names(error, node), error


def _names(error: StatewrightError, node: str | None) -> str:
    if isinstance(error, ConflictingWrites):
        return "+".join(sorted(error.nodes))
    return node or ""
