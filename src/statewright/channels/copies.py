"""Shallow copies of the lists, dicts and sets in a state.

A container in the state is shared by checkpoints, concurrent tasks, savers and readers. It is therefore copied when it
comes from a node or a caller, and when it is passed to a node or a caller. The objects in it are not copied. Only
instances of the exact builtin types are copied, because the method `copy` of a subclass might lose attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from statewright.channels.channel import Overwrite

CONTAINERS: Final = frozenset({list, dict, set})


def copy_container(value: Any) -> Any:
    """Return a copy of a list, dict or set; return any other value unchanged."""
    return value.copy() if type(value) in CONTAINERS else value


def copy_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new dict with the same values, of which containers are copied."""
    return {name: value.copy() if type(value) in CONTAINERS else value for name, value in values.items()}


def copy_update(update: Any) -> Any:
    """Return a copy of an update that is a container, or an Overwrite with a copy of the container in it."""
    if type(update) is Overwrite:
        return Overwrite(copy_container(update.value))
    return copy_container(update)


COPIED_UPDATES: Final = frozenset({*CONTAINERS, Overwrite})
"""The types of updates that `copy_update` copies."""


def copy_writes(writes: dict[str, Any] | list[tuple[str, Any]]) -> dict[str, Any] | list[tuple[str, Any]]:
    """Return the writes of a task with copies of their containers, because the node could still modify these.

    A dict without containers is returned unchanged.
    """
    if isinstance(writes, dict):
        for update in writes.values():
            if type(update) in COPIED_UPDATES:
                return {name: copy_update(update) for name, update in writes.items()}
        return writes
    return [(name, copy_update(update)) for name, update in writes]


def copy_argument(arg: Any) -> Any:
    """Return a copy of the argument of a Send, for one attempt. If it is a dict, containers in it are copied too."""
    return copy_fields(cast("dict[str, Any]", arg)) if type(arg) is dict else copy_container(arg)


def copy_in_place(values: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Replace the containers in these fields of `values` with copies, and return `values`."""
    for name in names:
        value = values.get(name)
        if type(value) in CONTAINERS:
            values[name] = cast(Any, value).copy()
    return values
