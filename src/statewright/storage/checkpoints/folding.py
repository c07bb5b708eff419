"""Folding of stored changes into states.

The changes of the newest checkpoints are in records, a row for each checkpoint. Those of older checkpoints are in
segments, except for the gains of growing fields, which are stored field by field. `segments.py` describes this layout;
`history.py` reads the parts of a state, and this module applies them without any I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from statewright.channels import MISSING, Added, Merged, apply_change
from statewright.checkpoint import Values

Changes = Mapping[str, Any]
ADD, MERGE, SET, GONE = range(4)
"""The kinds of gains of a growing field: items that are added or merged, a new value, the removal of the field. These
numbers are stored."""
Gain = tuple[int, int, Any]
"""The number of the checkpoint, the kind of the gain, and the items or the value."""
Base = tuple[Changes, frozenset[str]]
"""The state before a segment, and the growing fields, which it does not contain."""


class Part(NamedTuple):
    """The contribution of an interval of checkpoints to a state. The attributes are in the order of application."""

    base: Base | None
    changes: Sequence[Changes]
    """Changes from segments, in which growing fields are left out."""
    gains: Mapping[str, Sequence[Gain]]
    """Gains of growing fields, by field."""
    recent: Sequence[Changes]
    """Changes from records, which contain all fields."""


def fold(parts: Iterable[Part]) -> Values:
    """Return the state that results from parts, which are given oldest first."""
    values: Values = {}
    for part in parts:
        if part.base is not None:
            base_values, growing = part.base  # replaces the state before it, except for the fields that it leaves out
            values = {**{name: value for name, value in values.items() if name in growing}, **base_values}
        for changes in part.changes:
            apply_changes(values, changes)
        for field, gains in part.gains.items():
            _apply_gains(values, field, gains)
        _apply_all(values, part.recent)
    return values


def apply_changes(values: Values, changes: Changes) -> None:
    """Apply changes to a mapping that the caller owns."""
    for name, change in changes.items():
        value = apply_change(values.get(name, MISSING), change)
        if value is MISSING:
            values.pop(name, None)
        else:
            values[name] = value


def _apply_all(values: Values, changes_in_order: Iterable[Changes]) -> None:
    """Apply changes in order to a mapping that the caller owns.

    A list is copied when the first items are added to it, and extended in place from then on; a copy for each change
    would make the time quadratic.
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
    """Apply the gains of a growing field, whose list is copied only once, as in `_apply_all`."""
    value: Any = values.get(field, MISSING)
    if isinstance(value, list):
        value = [*value]  # pyright: ignore[reportUnknownVariableType]
    for _, kind, gained in gains:
        if kind == ADD and isinstance(value, list):
            value.extend(gained)  # pyright: ignore[reportUnknownMemberType]
        else:
            value = apply_change(value, change_of(kind, gained))
    if value is MISSING:
        values.pop(field, None)
    else:
        values[field] = value


def change_of(kind: int, gained: Any) -> Any:
    """Return a gain of a growing field as a change."""
    if kind == ADD:
        return Added(gained)
    if kind == MERGE:
        return Merged(gained)
    return MISSING if kind == GONE else gained
