"""`Overwrite`: an update that replaces the value, whatever the reducer would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from statewright.channels.channel import MISSING, Conflict


class Overwrite:
    """Replaces a channel's value, past its reducer. Two in one superstep are a conflict."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Overwrite({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Overwrite) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(Overwrite)  # its value may be unhashable


def overwritten(updates: Sequence[Any]) -> Any:
    """Return the value that an Overwrite among the updates sets, else MISSING. Raises Conflict where there are two.

    The JSON forms `{"__overwrite__": value}` and `{"type": "__overwrite__", "value": value}` count too.
    """
    found = MISSING
    for update in updates:
        kind: type = type(update)  # pyright: ignore[reportUnknownVariableType]
        if kind is not Overwrite and kind is not dict:
            continue
        value = update.value if kind is Overwrite else _from_json(cast(dict[str, Any], update))
        if value is MISSING:
            continue
        if found is not MISSING:
            raise Conflict("takes one Overwrite a superstep")
        found = value
    return found


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
