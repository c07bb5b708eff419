"""The channel of a field without annotation: it keeps the last value, and has one writer a superstep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from statewright.channels.channel import Channel, Conflict
from statewright.channels.overwrite import Overwrite


class LastValue(Channel):
    """Keeps what was written last; two writers in one superstep are a conflict."""

    single: ClassVar[bool] = True

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        if len(updates) > 1:
            raise Conflict("keeps one value")
        value = updates[0]
        return value.value if type(value) is Overwrite else value
