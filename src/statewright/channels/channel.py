"""The port of all channels: how one state value changes at the end of a superstep.

A channel holds no value. The value is in the state mapping; `apply` computes the next one, and `delta` its stored form,
from which it can be rebuilt. So copying, forking and replaying state means copying a mapping. A value is never changed
in place: `apply` returns a new one, because checkpoints, siblings and readers share the old one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"  # copies and unpickled values are the same object


MISSING: Final[Any] = _Missing()
"""Stands for a value that has never been written. Typed Any, so that it can be assigned wherever a value can."""


class Conflict(Exception):
    """Several updates to a channel that permits one. `core/fold.py` turns it into `ConflictingWrites`."""


class Channel:
    """The rule by which one state value changes. Subclasses implement `apply`, and set the class attributes."""

    single: ClassVar[bool] = False
    """True if one task per superstep may write it, and the update is the new value (the fast path of a fold)."""
    transient: bool = False
    """True if the value is removed after the next superstep unless that writes it again."""
    hidden: ClassVar[bool] = False
    """True if the value is left out of results and snapshots."""
    saved: ClassVar[bool] = True
    """True if checkpoints contain the value."""
    keeps_update: ClassVar[bool] = True
    """True if the value may be the object that was written, rather than one that `apply` has created."""

    def start(self) -> Any:
        """Return a new initial value; MISSING if there is none."""
        return MISSING

    def prepare(self, update: Any, task_id: str) -> Any:
        """Return an update in the form that `apply` and savers receive, with any new ids derived from the task id.

        Called when the result of a node is read, so that an update that is reloaded later gives the same value.
        """
        return update

    prepares: ClassVar[bool] = False
    """True if `prepare` does anything."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        """Return the value after all updates of one superstep, in task order. `current` may be MISSING.

        Raises `Conflict` if the updates exclude each other.
        """
        raise NotImplementedError

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the stored form of a change: the new value, or something smaller from which it can be rebuilt."""
        return new

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        settings = ", ".join(f"{name.lstrip('_')}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({settings})"


# -- updates that replace the value


class Overwrite:
    """Replaces the value of a channel instead of passing it to the reducer. Two in one superstep are a conflict."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overwrite) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(Overwrite)  # its value may be unhashable


def find_overwrite(updates: Sequence[Any]) -> Any:
    """Return the value of the Overwrite among the updates; MISSING if there is none. Raises Conflict if there are two.

    The JSON forms `{"__overwrite__": value}` and `{"type": "__overwrite__", "value": value}` count too.
    """
    result = MISSING
    for update in updates:
        kind: type = type(update)  # pyright: ignore[reportUnknownVariableType]
        if kind is not Overwrite and kind is not dict:
            continue
        value = update.value if kind is Overwrite else _from_json(cast(dict[str, Any], update))
        if value is MISSING:
            continue
        if result is not MISSING:
            raise Conflict("accepts only one Overwrite per superstep")
        result = value
    return result


def is_overwrite(update: Any) -> bool:
    """Return whether an update is an Overwrite, or one in its JSON form."""
    kind: type = type(update)  # pyright: ignore[reportUnknownVariableType]
    return kind is Overwrite or (kind is dict and _from_json(update) is not MISSING)


def _from_json(update: dict[str, Any]) -> Any:
    if len(update) == 1:
        return update.get("__overwrite__", MISSING)
    if len(update) == 2 and update.get("type") == "__overwrite__":
        return update.get("value", MISSING)
    return MISSING
