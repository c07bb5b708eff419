"""Copies of the lists, dicts and sets in a state, one level deep.

A container in the state is shared by checkpoints, siblings, savers and readers. So it is copied when it comes from a
node or a caller, and when it is passed to one. The objects inside are shared, never copied. Only the exact builtin
types are copied: `copy` of a subclass might lose attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from statewright.channels.channel import Overwrite

CONTAINERS: Final = frozenset({list, dict, set})


def copy_container(value: Any) -> Any:
    """Return a copy of a list, dict or set; any other value unchanged."""
    return value.copy() if type(value) in CONTAINERS else value


def copy_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a dict of the values with their containers copied."""
    return {name: value.copy() if type(value) in CONTAINERS else value for name, value in values.items()}


def copy_update(update: Any) -> Any:
    """Return an update with its container copied, also inside an Overwrite."""
    if type(update) is Overwrite:
        return Overwrite(copy_container(update.value))
    return copy_container(update)


COPIED_UPDATES: Final = frozenset({*CONTAINERS, Overwrite})
"""The types of updates that `copy_update` copies."""


def copy_writes(writes: dict[str, Any] | list[tuple[str, Any]]) -> dict[str, Any] | list[tuple[str, Any]]:
    """Return the writes of a task with their containers copied, since the node may still change what it returned.

    A dict without containers is returned unchanged.
    """
    if isinstance(writes, dict):
        for update in writes.values():
            if type(update) in COPIED_UPDATES:
                return {name: copy_update(update) for name, update in writes.items()}
        return writes
    return [(name, copy_update(update)) for name, update in writes]


def copy_argument(arg: Any) -> Any:
    """Return a copy of the argument of a Send for one attempt. A dict is copied like a state: with its containers."""
    return copy_fields(cast("dict[str, Any]", arg)) if type(arg) is dict else copy_container(arg)


def copy_in_place(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Replace the containers in the named fields of `values` by copies, in place, and return `values`."""
    for name in names:
        value = values.get(name)
        if type(value) in CONTAINERS:
            values[name] = cast(Any, value).copy()
    return values
