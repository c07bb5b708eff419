"""The states of recorded runs: how they are rebuilt from recorded changes, and their fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from statewright.channels import MISSING, apply_change
from statewright.data.fingerprint import fingerprint
from statewright.testing.replay.records import RecordedRun


def apply_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the changes of a superstep, by field, applied."""
    result = dict(values)
    for name, change in changes.items():
        value = apply_change(result.get(name, MISSING), change)
        if value is MISSING:
            result.pop(name, None)
        else:
            result[name] = value
    return result


class StateFingerprints:
    """Computes the fingerprints of successive states.

    Fields and list items that are the same objects as in the previous state are not hashed again. A conversation grows
    in every superstep, so hashing the whole conversation each time would take quadratic time.
    """

    def __init__(self) -> None:
        self._by_field: dict[str, tuple[Any, str]] = {}
        """The last value and the fingerprint of each field."""
        self._by_item: dict[int, tuple[Any, str]] = {}
        """List items and their fingerprints, by the object ids of the items."""

    def of(self, values: Mapping[str, Any]) -> str:
        """Return the fingerprint of a state."""
        self._by_field = {name: self._hash_field(name, value) for name, value in values.items()}
        return fingerprint({name: digest for name, (_, digest) in self._by_field.items()})

    def _hash_field(self, name: str, value: Any) -> tuple[Any, str]:
        entry = self._by_field.get(name)
        if entry is not None and entry[0] is value:
            return entry
        if type(value) is not list:
            return value, fingerprint(value)
        items = cast("list[Any]", value)
        return items, fingerprint(list(map(self._hash_item, items)))

    def _hash_item(self, item: Any) -> str:
        entry = self._by_item.get(id(item))
        # The entry keeps a reference to the item, because an object id can be reused once its object is freed.
        if entry is None or entry[0] is not item:
            entry = self._by_item[id(item)] = (item, fingerprint(item))
        return entry[1]


def add_fingerprints(run: RecordedRun) -> None:
    """Set the fingerprints of a run's states, and of the states in its tasks' calls of subgraphs."""
    values, fingerprints = dict[str, Any](), StateFingerprints()
    for step in run.steps:
        for task in step.tasks:
            for call in task.calls:
                add_fingerprints(call)
        if step.after is not None:
            values = apply_changes(values, step.after.changes)
            step.after.fingerprint = fingerprints.of(values)
