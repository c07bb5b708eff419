"""Computation of values from the changes that are stored in checkpoints, and of changes from values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from statewright.channels.channel import MISSING
from statewright.channels.delta import Added, Merged
from statewright.channels.messages import MessageBatch, Messages


def apply_change(current: Any, change: Any) -> Any:
    """Return the value after a change; MISSING if the change removes the field. `current` is not modified."""
    if type(change) is Added:
        existing_items = cast("Sequence[Any]", () if current is MISSING else current)
        return [*existing_items, *change.items]
    if type(change) is Merged:
        return Messages().apply(current, [MessageBatch(list(change.items), all_new=False)])
    return change


def difference(before: Any, after: Any) -> Any:
    """Return the change to store between two values of a field, between which any number of supersteps may lie."""
    if type(before) is list and type(after) is list:
        old, new = cast("list[Any]", before), cast("list[Any]", after)
        if len(new) >= len(old) and all(map(operator.is_, old, new)):
            return Added(new[len(old) :])
    return cast(Any, after)
