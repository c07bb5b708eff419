"""A channel that collects what was published, for one superstep or for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from statewright.channels.change import Added
from statewright.channels.channel import MISSING, Channel
from statewright.channels.copies import copy_container
from statewright.channels.overwrite import overwritten


class Topic(Channel):
    """A list of everything written; a list that is written counts as its items."""

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, accumulate: bool = False) -> None:
        self.accumulate = accumulate
        """Whether items stay, rather than being there for the next superstep only."""
        self.transient = not accumulate

    def start(self) -> list[Any]:
        return []

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        replaced = overwritten(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        items: list[Any] = list(current) if self.accumulate and current is not MISSING else []
        for update in updates:
            items.extend(cast(list[Any], update) if isinstance(update, list) else [update])
        return items

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """The items that were published, where they stay; the whole list after an Overwrite."""
        if not self.accumulate or overwritten(updates) is not MISSING:
            return new
        return Added(self.apply(MISSING, updates))
