"""The channel of `Annotated[T, reducer]`: updates are folded into the value one after another.

The order of updates is the order of tasks, never of arrival: a reducer need not commute.
See `append` for lists, where all updates of a superstep are folded at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from statewright.channels.channel import MISSING, Channel
from statewright.channels.copies import CONTAINERS, copy_container
from statewright.channels.overwrite import overwritten

Reducer = Callable[[Any, Any], Any]
"""`(current, update) -> value`."""
_OPERATORS: Final[Any] = operator  # whose functions are typed in part only
_PURE: Final[tuple[Any, ...]] = (
    *(getattr(_OPERATORS, name) for name in ("add", "or_", "and_", "sub", "xor")),
    max,
    min,
)
"""Reducers that are known to leave what they are given alone."""


class Reduced(Channel):
    """Folds every update into its value with a reducer.

    Without a start value the first update is the value.
    """

    def __init__(self, reducer: Reducer, *, start: Callable[[], Any] | None = None) -> None:
        self.reducer = reducer
        self._start = start

    def start(self) -> Any:
        return MISSING if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        replaced = overwritten(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        pending = iter(updates)
        value = next(pending) if current is MISSING else current
        if type(value) in CONTAINERS and self.reducer not in _PURE:
            value = value.copy()  # the reducer may change in place what checkpoints and siblings share
        for update in pending:
            value = self.reducer(value, update)
        return value
