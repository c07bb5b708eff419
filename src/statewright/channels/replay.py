"""Values rebuilt from the stored changes of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from statewright.channels.channel import MISSING
from statewright.channels.delta import Added, Merged
from statewright.channels.messages import MessageBatch, Messages


def changed(current: Any, change: Any) -> Any:
    """Return the value after a change; MISSING if the field is removed. `current` is not modified."""
    if type(change) is Added:
        before = cast("Sequence[Any]", () if current is MISSING else current)
        return [*before, *change.items]
    if type(change) is Merged:
        return Messages().apply(current, [MessageBatch(list(change.items), all_new=False)])
    return change


def difference(before: Any, after: Any) -> Any:
    """Return the change from one value of a field to another one, over any number of supersteps."""
    if type(before) is list and type(after) is list:
        old, new = cast("list[Any]", before), cast("list[Any]", after)
        if len(new) >= len(old) and all(one is other for one, other in zip(old, new, strict=False)):
            return Added(new[len(old) :])
    return cast(Any, after)
