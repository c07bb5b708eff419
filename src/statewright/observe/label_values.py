"""Values of labels that users make up, held to a number that a database of metrics can bear."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

OTHER: Final = "other"
"""The value that stands for all that came when there were enough."""
LONGEST: Final = 100
"""Signs of a value that are kept."""


OF_AN_OWNER: Final = 50
"""Combinations that one owner may add to a metric, so that nobody uses up what there is for the others."""


class LabelValues:
    """The combinations of values that one metric has met: the first so many are told apart, all later ones are one.

    Each owner, such as a workspace, has its own share. Those of nobody in particular share `most`.
    """

    def __init__(self, most: int, of_an_owner: int = OF_AN_OWNER) -> None:
        self._most = most
        self._of_an_owner = min(most, of_an_owner)
        self._known: set[tuple[str, ...]] = set()
        self._added: Counter[str | None] = Counter()
        self._lock = threading.Lock()

    def __call__(self, *values: object, owner: str | None = None) -> tuple[str, ...]:
        """The values as they may be used."""
        given = tuple(str(value)[:LONGEST] for value in values)
        if given in self._known:
            return given
        with self._lock:
            if self._added[owner] >= (self._most if owner is None else self._of_an_owner):
                return (OTHER,) * len(given)
            if given not in self._known:  # perhaps by another thread meanwhile
                self._known.add(given)
                self._added[owner] += 1
        return given
