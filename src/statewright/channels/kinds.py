"""The classes of channels, one for each rule by which updates change a value.

The updates of a superstep are applied in task order, not in the order in which the tasks ended, so a reducer need not
be commutative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Literal, cast

from statewright.channels.channel import MISSING, Channel, Conflict, Overwrite, find_overwrite
from statewright.channels.copies import CONTAINERS, copy_container
from statewright.channels.delta import Added
from statewright.errors import InvalidUpdateError, suggestion


class _Latest(Channel):
    """Base class of channels that keep the last update of a superstep, in task order."""

    guard: bool = False
    """True if two updates in one superstep are a conflict; if False, the last update replaces the others."""
    conflict: ClassVar[str] = "is guarded"
    """A verb phrase that gives the reason for a conflict. Its subject is the channel."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        if self.guard and len(updates) > 1:
            raise Conflict(self.conflict)
        value = updates[-1]
        return value.value if type(value) is Overwrite else value


class LastValue(_Latest):
    """Keeps the last value. Two updates in one superstep are a conflict."""

    single: ClassVar[bool] = True
    guard: bool = True
    conflict: ClassVar[str] = "keeps one value"


class AnyValue(_Latest):
    """Keeps the last update in task order, for tasks that are known to write equal values in one superstep."""


# -- reducers, which fold updates into the value one after another

Reducer = Callable[[Any, Any], Any]
"""`(current, update) -> value`."""
_operator: Final[Any] = operator  # as Any, because the type stubs of `operator` leave some functions untyped
_PURE: Final[tuple[Any, ...]] = (
    _operator.add, _operator.or_, _operator.and_, _operator.sub, _operator.xor, max, min,
)  # fmt: skip
"""Reducers that are known not to modify their arguments."""


class Reduced(Channel):
    """Folds every update into the value with a reducer.

    `start` returns the initial value. If it is None, the first update becomes the value.
    """

    def __init__(self, reducer: Reducer, *, start: Callable[[], Any] | None = None) -> None:
        self.reducer = reducer
        self._start = start

    def start(self) -> Any:
        return MISSING if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        new_value = find_overwrite(updates)
        if new_value is not MISSING:
            return copy_container(new_value)
        remaining = iter(updates)
        value = next(remaining) if current is MISSING else current
        if type(value) in CONTAINERS and self.reducer not in _PURE:
            value = value.copy()  # the reducer may modify it in place, but checkpoints and other tasks share it
        for update in remaining:
            value = self.reducer(value, update)
        return value


# -- lists that grow
#
# The list is copied once per superstep, not once per update, because all updates of a superstep are applied together.
# The copy is needed because checkpoints and readers share the old list. It takes about a nanosecond per item.


class Append(Channel):
    """A list to which updates are appended.

    If an update is a list, its items are appended. With `items=True`, any other update is appended as one item.
    """

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, items: bool = True, start: Callable[[], Any] | None = None) -> None:
        self.items = items
        """True if an update that is not a list is appended as one item; if False, it is refused, as by `operator.add`.
        """
        self._start = start

    def start(self) -> list[Any]:
        return [] if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        new_value = find_overwrite(updates)
        if new_value is not MISSING:
            return copy_container(new_value)
        if current is MISSING:
            new: list[Any] = []
        elif isinstance(current, list):
            new = cast(list[Any], current).copy()
        else:
            raise InvalidUpdateError(f"Only a list can be appended to, but the current value is {current!r}.")
        for update in updates:
            new.extend(cast(Sequence[Any], update) if isinstance(update, list | tuple) else self._single_item(update))
        return new

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the added items, or the whole list if there is an Overwrite."""
        return new if find_overwrite(updates) is not MISSING else Added(self.apply(MISSING, updates))

    def _single_item(self, update: Any) -> tuple[Any]:
        if not self.items:
            raise InvalidUpdateError(f"This list accepts only lists of items, found {update!r}. Write [{update!r}].")
        return (update,)


# -- topics: lists of published values, which are kept for one superstep or permanently


class Topic(Channel):
    """A list of the values that were written. If a list is written, its items are added."""

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, accumulate: bool = False) -> None:
        self.accumulate = accumulate
        """True if items are kept permanently; if False, they are kept only for the superstep after the one that wrote
        them."""
        self.transient = not accumulate

    def start(self) -> list[Any]:
        return []

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        new_value = find_overwrite(updates)
        if new_value is not MISSING:
            return copy_container(new_value)
        items: list[Any] = list(current) if self.accumulate and current is not MISSING else []
        for update in updates:
            items.extend(cast(list[Any], update) if isinstance(update, list) else [update])
        return items

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the added items, or the whole list if items do not accumulate or there is an Overwrite."""
        if not self.accumulate or find_overwrite(updates) is not MISSING:
            return new
        return Added(self.apply(MISSING, updates))


# -- signals that last for one superstep
#
# If a task writes a value in superstep N, its conditional edges see the value in N, but other tasks of N do not. All
# tasks of superstep N+1 see it. At the end of N+1 it is removed, unless it was written again. Results and snapshots
# never contain it. The checkpoint between N and N+1 does, so that it is not lost in a crash.


class Ephemeral(_Latest):
    """Keeps a value for the superstep after the one that wrote it. The last update, in task order, replaces others."""

    transient: bool = True
    hidden: ClassVar[bool] = True

    def __init__(self, *, guard: bool = False, lifetime: Literal["next", "step"] = "next") -> None:
        self.guard = guard
        self.lifetime = lifetime
        """`"step"` removes the value before the next superstep, so that only conditional edges see it."""


# -- values that are never saved, such as connections, handles and caches


class Untracked(_Latest):
    """Keeps the last value until the run ends. It is never saved, not even as part of the argument of a Send."""

    saved: ClassVar[bool] = False

    def __init__(self, *, guard: bool = True) -> None:
        self.guard = guard


# -- barriers: sets of the names that have been written


class Barrier(Channel):
    """The set of expected names that have been written. Once it is complete, the next update starts a new set.

    An update is one name or a collection of names. A name that is not expected raises InvalidUpdateError.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        """The expected names."""

    def start(self) -> frozenset[str]:
        return frozenset()

    def apply(self, current: Any, updates: Sequence[Any]) -> frozenset[str]:
        arrived: frozenset[str] = frozenset() if current is MISSING or current == self.names else current
        names = [name for update in updates for name in _names(update)]
        unknown = next((name for name in names if name not in self.names), None)
        if unknown is not None:
            raise InvalidUpdateError(
                f"{unknown!r} is not expected at this barrier. " + suggestion(unknown, self.names, noun="Expected")
            )
        return arrived.union(names)


def _names(update: Any) -> list[str]:
    """Return the names in an update. Raises InvalidUpdateError unless it is a name or a collection of names."""
    is_collection = isinstance(update, Iterable) and not isinstance(update, str)
    names = list(cast(Iterable[Any], update)) if is_collection else [cast(Any, update)]
    if not all(isinstance(name, str) for name in names):
        raise InvalidUpdateError(f"The update to a barrier is {update!r}. Write a name, or a collection of names.")
    return names
