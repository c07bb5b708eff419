"""The base class of channels. A channel is the rule by which one value of the state changes at the end of a superstep.

A channel does not contain the value, which is in a dict of values by channel, so copying or forking a state only means
copying a dict. `apply` computes the next value, and `delta` returns the change in the form in which it is stored, from
which the value can be rebuilt. A value is never changed in place: `apply` returns a new value, because checkpoints,
concurrent tasks and readers share the old one.
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
        return "MISSING"  # so that copying and unpickling return the same object


MISSING: Final[Any] = _Missing()
"""The value of a channel that has none. Its type is Any, so that it can be used in place of any value."""


class Conflict(Exception):
    """Several updates of one superstep exclude each other. `core/fold.py` converts it to `ConflictingWrites`."""


class Channel:
    """The rule by which one value of the state changes. Subclasses implement `apply` and set the class attributes."""

    single: ClassVar[bool] = False
    """True if only one task of a superstep may write the channel and its update is the new value, so that `apply` need
    not be called."""
    transient: bool = False
    """True if the value is removed after the next superstep, unless that superstep writes it again."""
    hidden: ClassVar[bool] = False
    """True if results and snapshots do not contain the value."""
    saved: ClassVar[bool] = True
    """True if checkpoints contain the value."""
    keeps_update: ClassVar[bool] = True
    """True if the value may be the same object as an update, rather than an object that `apply` has created."""

    def start(self) -> Any:
        """Return a new initial value; MISSING if there is none."""
        return MISSING

    def prepare(self, update: Any, task_id: str) -> Any:
        """Return an update in the form that `apply` and savers receive, with new ids derived from the task id.

        It is called when the result of a node is read, before the result is saved. An update that is loaded later then
        results in the same value.
        """
        return update

    prepares: ClassVar[bool] = False
    """True if `prepare` can change an update, so that it must be called."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        """Return the value after a superstep. `updates` are its updates in task order; `current` may be MISSING.

        Raises `Conflict` if the updates exclude each other.
        """
        raise NotImplementedError

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the change to store: the new value, or a smaller object of `delta.py` from which it can be rebuilt."""
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
    """An update that replaces the value of a channel instead of being passed to the reducer.

    Two such updates of a channel in one superstep are a conflict.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overwrite) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(Overwrite)  # the value may be unhashable


def find_overwrite(updates: Sequence[Any]) -> Any:
    """Return the value of the Overwrite among the updates; MISSING if there is none. Raises Conflict if there are two.

    An Overwrite may also be in the JSON form `{"__overwrite__": value}` or `{"type": "__overwrite__", "value": value}`.
    """
    result = MISSING
    for update in updates:
        cls: type = type(update)  # pyright: ignore[reportUnknownVariableType]
        if cls is not Overwrite and cls is not dict:
            continue
        value = update.value if cls is Overwrite else _from_json(cast(dict[str, Any], update))
        if value is MISSING:
            continue
        if result is not MISSING:
            raise Conflict("accepts only one Overwrite per superstep")
        result = value
    return result


def is_overwrite(update: Any) -> bool:
    """Return whether an update is an Overwrite, or a dict that is the JSON form of one."""
    cls: type = type(update)  # pyright: ignore[reportUnknownVariableType]
    return cls is Overwrite or (cls is dict and _from_json(update) is not MISSING)


def _from_json(update: dict[str, Any]) -> Any:
    """Return the value in the JSON form of an Overwrite; MISSING if the dict is not such a form."""
    if len(update) == 1:
        return update.get("__overwrite__", MISSING)
    if len(update) == 2 and update.get("type") == "__overwrite__":
        return update.get("value", MISSING)
    return MISSING
