"""Folding of stored changes into states.

The newest checkpoints have their changes in records. Older ones are in segments: their changes, except those of growing
fields, whose gains are stored by field. This module does not read anything; see `history.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from statewright.channels import MISSING, Added, Merged, changed
from statewright.checkpoint import Values

Changes = Mapping[str, Any]
ADD, MERGE, SET, GONE = range(4)
"""The kinds of gains of a growing field, which are stored as these numbers."""
Growth = tuple[int, int, Any]
"""The number of the checkpoint, the kind of the gain, and the items or the value."""
Base = tuple[Changes, frozenset[str]]
"""The state before a segment, and the growing fields, which it does not contain."""


class Part(NamedTuple):
    """The contribution of an interval to a state, in order of application."""

    base: Base | None
    changes: Sequence[Changes]
    growth: Mapping[str, Sequence[Growth]]
    recent: Sequence[Changes]


def fold(parts: Iterable[Part]) -> Values:
    """Return the state that consists of parts, the oldest first."""
    values: Values = {}
    for part in parts:
        if part.base is not None:
            base_values, growing = part.base
            values = {**{name: value for name, value in values.items() if name in growing}, **base_values}
        for changes in part.changes:
            apply_changes(values, changes)
        for field, growth in part.growth.items():
            _grow(values, field, growth)
        _apply_all(values, part.recent)
    return values


def apply_changes(values: Values, changes: Changes) -> None:
    """Apply changes to a mapping that the caller owns."""
    for name, change in changes.items():
        value = changed(values.get(name, MISSING), change)
        if value is MISSING:
            values.pop(name, None)
        else:
            values[name] = value


def _apply_all(values: Values, changes_in_order: Iterable[Changes]) -> None:
    """Apply changes in order to a mapping that the caller owns; growing lists are copied once, not each time."""
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


def _grow(values: Values, field: str, growth: Iterable[Growth]) -> None:
    """Apply the gains of a growing field; its list is copied once, however many there are."""
    value: Any = values.get(field, MISSING)
    if isinstance(value, list):
        value = [*value]  # pyright: ignore[reportUnknownVariableType]
    for _, kind, gained in growth:
        if kind == ADD and isinstance(value, list):
            value.extend(gained)  # pyright: ignore[reportUnknownMemberType]
        else:
            value = changed(value, change_of(kind, gained))
    if value is MISSING:
        values.pop(field, None)
    else:
        values[field] = value


def change_of(kind: int, gained: Any) -> Any:
    """Return a gain of a growing field as a change."""
    if kind == ADD:
        return Added(gained)
    return Merged(gained) if kind == MERGE else MISSING if kind == GONE else gained
