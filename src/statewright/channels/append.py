"""The channel of growing lists: what `append` and `operator.add` on a list field become.

All updates of a superstep are folded at once, so a thousand writers copy the list once, not a thousand times. The
copy keeps checkpoints and readers of the old list safe, at about a nanosecond an element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from statewright.channels.change import Added
from statewright.channels.channel import MISSING, Channel
from statewright.channels.copies import copy_container
from statewright.channels.overwrite import overwritten
from statewright.errors import InvalidUpdateError


class Append(Channel):
    """A list to which updates are appended: the items of a list, or with `items=True` any other value as one item."""

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, items: bool = True, start: Callable[[], Any] | None = None) -> None:
        self.items = items
        """Whether a value that is no list is taken as one item, rather than refused as `operator.add` would."""
        self._start = start

    def start(self) -> list[Any]:
        return [] if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        replaced = overwritten(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        if current is MISSING:
            new: list[Any] = []
        elif isinstance(current, list):
            new = cast(list[Any], current).copy()
        else:
            raise InvalidUpdateError(f"Only a list can be appended to, found {current!r}.")
        for update in updates:
            new.extend(cast(Sequence[Any], update) if isinstance(update, list | tuple) else self._item(update))
        return new

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """The items that were added; the whole list after an Overwrite."""
        return new if overwritten(updates) is not MISSING else Added(self.apply(MISSING, updates))

    def _item(self, update: Any) -> tuple[Any]:
        if not self.items:
            raise InvalidUpdateError(f"This list takes lists of items, found {update!r}. Write [{update!r}].")
        return (update,)
