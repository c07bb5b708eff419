"""A channel for values that checkpoints must not keep: connections, handles, caches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from statewright.channels.channel import Channel, Conflict
from statewright.channels.overwrite import Overwrite


class Untracked(Channel):
    """Keeps the last value for the length of a run; never saved, and stripped from a saved Send."""

    saved: ClassVar[bool] = False

    def __init__(self, *, guard: bool = True) -> None:
        self.guard = guard
        """Whether two writers in one superstep are a conflict, rather than the last one winning."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        if self.guard and len(updates) > 1:
            raise Conflict("is guarded")
        value = updates[-1]
        return value.value if type(value) is Overwrite else value
