"""Values rebuilt from the changes that are stored in checkpoints."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from statewright.channels.channel import MISSING
from statewright.channels.delta import Added, Merged
from statewright.channels.messages import MessageBatch, Messages


def apply_change(current: Any, change: Any) -> Any:
    """Return the value after a change; MISSING if the field is removed. `current` is not modified."""
    if type(change) is Added:
        before = cast("Sequence[Any]", () if current is MISSING else current)
        return [*before, *change.items]
    if type(change) is Merged:
        return Messages().apply(current, [MessageBatch(list(change.items), all_new=False)])
    return change


def difference(before: Any, after: Any) -> Any:
    """Return the stored form of a change from one value of a field to another, over any number of supersteps."""
    if type(before) is list and type(after) is list:
        old, new = cast("list[Any]", before), cast("list[Any]", after)
        if len(new) >= len(old) and all(map(operator.is_, old, new)):
            return Added(new[len(old) :])
    return cast(Any, after)
