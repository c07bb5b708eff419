"""A channel for writers that are known to agree: the last in task order is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from statewright.channels.channel import Channel
from statewright.channels.overwrite import Overwrite


class AnyValue(Channel):
    """Keeps one of the values written in a superstep: the last in task order."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        value = updates[-1]
        return value.value if type(value) is Overwrite else value
