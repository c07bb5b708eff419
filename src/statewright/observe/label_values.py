"""Values of labels that users make up, held to a number that a database of metrics can bear."""

from __future__ import annotations

import threading
from typing import Final

OTHER: Final = "other"
"""The value that stands for all that came when there were enough."""
LONGEST: Final = 100
"""Signs of a value that are kept."""


class LabelValues:
    """The combinations of values that one metric has met: the first so many are told apart, all later ones are one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[tuple[str, ...]] = set()
        self._lock = threading.Lock()

    def __call__(self, *values: object) -> tuple[str, ...]:
        """The values as they may be used."""
        given = tuple(str(value)[:LONGEST] for value in values)
        if given in self._known:
            return given
        with self._lock:
            if len(self._known) >= self._most:
                return (OTHER,) * len(given)
            self._known.add(given)
        return given
