"""The kinds of channels: one class for each rule by which updates change a value.

Updates of one superstep are applied in the order of its tasks, never in the order of arrival, so a reducer need not be
commutative.
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
    """Base of channels that keep one of the values written in a superstep: the last in task order."""

    guard: bool = False
    """True if two writers in one superstep are a conflict; otherwise the last one wins."""
    conflict: ClassVar[str] = "is guarded"
    """The reason for a conflict, with the channel as the subject of the sentence."""

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        if self.guard and len(updates) > 1:
            raise Conflict(self.conflict)
        value = updates[-1]
        return value.value if type(value) is Overwrite else value


class LastValue(_Latest):
    """Keeps the last value; two writers in one superstep are a conflict."""

    single: ClassVar[bool] = True
    guard: bool = True
    conflict: ClassVar[str] = "keeps one value"


class AnyValue(_Latest):
    """Keeps the last value in task order: for writers that are known to write equal values."""


# -- reducers: updates are folded into the value one after another

Reducer = Callable[[Any, Any], Any]
"""`(current, update) -> value`."""
_operator: Final[Any] = operator  # Any, because its stubs leave some functions untyped
_PURE: Final[tuple[Any, ...]] = (
    _operator.add, _operator.or_, _operator.and_, _operator.sub, _operator.xor, max, min,
)  # fmt: skip
"""Reducers that are known not to modify their arguments."""


class Reduced(Channel):
    """Folds every update into its value with a reducer. Without a start value the first update becomes the value."""

    def __init__(self, reducer: Reducer, *, start: Callable[[], Any] | None = None) -> None:
        self.reducer = reducer
        self._start = start

    def start(self) -> Any:
        return MISSING if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> Any:
        replaced = find_overwrite(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        pending = iter(updates)
        value = next(pending) if current is MISSING else current
        if type(value) in CONTAINERS and self.reducer not in _PURE:
            value = value.copy()  # the reducer may modify it in place, and checkpoints and siblings share it
        for update in pending:
            value = self.reducer(value, update)
        return value


# -- lists that grow
#
# All updates of a superstep are folded at once, so a thousand writers copy the list once, not a thousand times. The
# copy keeps checkpoints and readers of the old list safe, at about a nanosecond per element.


class Append(Channel):
    """A list to which updates are appended: the items of a list, or, with `items=True`, any other value as one item."""

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, items: bool = True, start: Callable[[], Any] | None = None) -> None:
        self.items = items
        """True if a value that is not a list is appended as one item; otherwise it is refused, as by `operator.add`."""
        self._start = start

    def start(self) -> list[Any]:
        return [] if self._start is None else self._start()

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        replaced = find_overwrite(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        if current is MISSING:
            new: list[Any] = []
        elif isinstance(current, list):
            new = cast(list[Any], current).copy()
        else:
            raise InvalidUpdateError(f"Only a list can be appended to, but the current value is {current!r}.")
        for update in updates:
            new.extend(cast(Sequence[Any], update) if isinstance(update, list | tuple) else self._item(update))
        return new

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the added items; the whole list after an Overwrite."""
        return new if find_overwrite(updates) is not MISSING else Added(self.apply(MISSING, updates))

    def _item(self, update: Any) -> tuple[Any]:
        if not self.items:
            raise InvalidUpdateError(f"This list accepts only lists of items, found {update!r}. Write [{update!r}].")
        return (update,)


# -- topics: published values, kept for one superstep or forever


class Topic(Channel):
    """A list of everything written; a list that is written counts as its items."""

    keeps_update: ClassVar[bool] = False

    def __init__(self, *, accumulate: bool = False) -> None:
        self.accumulate = accumulate
        """True if items accumulate; otherwise they last for the next superstep only."""
        self.transient = not accumulate

    def start(self) -> list[Any]:
        return []

    def apply(self, current: Any, updates: Sequence[Any]) -> list[Any]:
        replaced = find_overwrite(updates)
        if replaced is not MISSING:
            return copy_container(replaced)
        items: list[Any] = list(current) if self.accumulate and current is not MISSING else []
        for update in updates:
            items.extend(cast(list[Any], update) if isinstance(update, list) else [update])
        return items

    def delta(self, updates: Sequence[Any], new: Any) -> Any:
        """Return the added items; the whole list if items do not accumulate, or after an Overwrite."""
        if not self.accumulate or find_overwrite(updates) is not MISSING:
            return new
        return Added(self.apply(MISSING, updates))


# -- signals that last for one superstep
#
# A value written in superstep N is seen by conditional edges of its writer in N, but not by its siblings; it is seen by
# every node of N+1; at the end of N+1 it is removed unless it was written again. It never appears in results or
# snapshots. A checkpoint between N and N+1 contains it, so that a crash there does not lose it.


class Ephemeral(_Latest):
    """Keeps a value for the superstep after the one that wrote it; of several writers, the last in task order wins."""

    transient: bool = True
    hidden: ClassVar[bool] = True

    def __init__(self, *, guard: bool = False, lifetime: Literal["next", "step"] = "next") -> None:
        self.guard = guard
        self.lifetime = lifetime
        """`"step"` clears the value before the next superstep: only conditional edges see it."""


# -- values that are never saved: connections, handles, caches


class Untracked(_Latest):
    """Keeps the last value for the duration of a run; never saved, and removed from a saved Send."""

    saved: ClassVar[bool] = False

    def __init__(self, *, guard: bool = True) -> None:
        self.guard = guard


# -- barriers: the names that have arrived


class Barrier(Channel):
    """The set of names that have arrived; when all have, the next arrival begins a new round.

    An update is one name or a collection of names. A name that is not expected is an InvalidUpdateError.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)

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
