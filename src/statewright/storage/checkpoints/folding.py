"""Computation of states from stored changes.

The changes of the newest checkpoints are in records, one row for each checkpoint. The changes of older checkpoints are
in segments, except the gains of growing fields, which have rows of their own for each field. `segments.py` explains
this layout. `history.py` reads the parts of a state from the database, and this module applies them, without any I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from statewright.channels import MISSING, Added, Merged, apply_change
from statewright.checkpoint import Values

Changes = Mapping[str, Any]
"""The changes of one checkpoint, by field, in the form of `channels/delta.py`."""
ADD, MERGE, SET, GONE = range(4)
"""The kinds of gains, which are the changes of growing fields: items were added or merged, the value was replaced, or
the field was removed. These numbers are stored."""
Gain = tuple[int, int, Any]
"""The number of the checkpoint, the kind of the gain, and the items or the value."""
Base = tuple[Changes, frozenset[str]]
"""The values before a segment of all fields that do not grow, and the names of the growing fields."""


class Part(NamedTuple):
    """The contribution of an interval of checkpoints to a state. The attributes are in the order of application."""

    base: Base | None
    changes: Sequence[Changes]
    """The changes in segments, without growing fields."""
    gains: Mapping[str, Sequence[Gain]]
    """The gains of growing fields, by field."""
    recent: Sequence[Changes]
    """The changes in records, of all fields."""


def fold(parts: Iterable[Part]) -> Values:
    """Return the state that results from these parts, oldest first."""
    values: Values = {}
    for part in parts:
        if part.base is not None:
            base_values, growing = part.base  # replaces all earlier values except those of growing fields
            values = {**{name: value for name, value in values.items() if name in growing}, **base_values}
        for changes in part.changes:
            apply_changes(values, changes)
        for field, gains in part.gains.items():
            _apply_gains(values, field, gains)
        _apply_all(values, part.recent)
    return values


def apply_changes(values: Values, changes: Changes) -> None:
    """Apply the changes of one checkpoint to a dict, in place."""
    for name, change in changes.items():
        value = apply_change(values.get(name, MISSING), change)
        if value is MISSING:
            values.pop(name, None)
        else:
            values[name] = value


def _apply_all(values: Values, changes_in_order: Iterable[Changes]) -> None:
    """Apply the changes of several checkpoints to a dict, in place.

    A list is copied when items are first added to it, and the copy is then extended in place. Copying the list for each
    change would take quadratic time.
    """
    copies: dict[str, list[Any]] = {}
    for changes in changes_in_order:
        for name, change in changes.items():
            copy = copies.get(name)
            if copy is not None and type(change) is Added:
                copy.extend(change.items)
                continue
            apply_changes(values, {name: change})
            if type(change) is Added:
                copies[name] = values[name]
            else:
                copies.pop(name, None)


def _apply_gains(values: Values, field: str, gains: Iterable[Gain]) -> None:
    """Apply the gains of a growing field. Its list is copied only once, as in `_apply_all`."""
    value: Any = values.get(field, MISSING)
    if isinstance(value, list):
        value = [*value]  # pyright: ignore[reportUnknownVariableType]
    for _, kind, content in gains:
        if kind == ADD and isinstance(value, list):
            value.extend(content)  # pyright: ignore[reportUnknownMemberType]
        else:
            value = apply_change(value, change_of(kind, content))
    if value is MISSING:
        values.pop(field, None)
    else:
        values[field] = value


def change_of(kind: int, content: Any) -> Any:
    """Return a gain, given by its kind and its items or value, as a change in the form of `channels/delta.py`."""
    if kind == ADD:
        return Added(content)
    if kind == MERGE:
        return Merged(content)
    return MISSING if kind == GONE else content
