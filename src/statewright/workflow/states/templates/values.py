"""The values inside a rendering: plain JSON values, and a few that exist only during a rendering.

Templates never read attributes of Python objects. A dot reads a key of a map, or an attribute that `get_attribute`
defines for one of the classes below.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.literal import key_to_string

SCALARS: Final = frozenset((str, int, float, bool, type(None)))
"""The types of values that contain no other values."""


class Missing:
    """The value of an undefined name or path. It is false in conditions, and all of its parts are missing too."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path
        """The path as written, such as `user.name`, or a description, for messages."""

    def __bool__(self) -> bool:
        return False


NOTHING: Final = Missing("an inline if without else")
"""The value of `'a' if false`. It is missing, but written as an empty string."""


class UnresolvedName(ExpressionError):
    """A missing value was used where a value is required."""

    def __init__(self, missing: Missing) -> None:
        self.missing = missing
        super().__init__(f"{missing.path!r} has no value")


class Namespace:
    """`namespace(...)`: values that a template sets with `{% set ns.name = ... %}`, from inside loops too."""

    __slots__ = ("values",)

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return "namespace"


class Loop:
    """`loop` inside a `{% for %}`: the items and the position of the loop."""

    __slots__ = ("_last_values", "index0", "items")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.index0 = 0
        self._last_values: tuple[Any, ...] | None = None
        """The arguments of the last call of `changed`."""

    def __repr__(self) -> str:
        return "loop"

    def get(self, name: str, missing: Missing) -> Any:
        """Return an attribute of the loop."""
        index0, length = self.index0, len(self.items)
        if name == "previtem":
            return self.items[index0 - 1] if index0 > 0 else missing
        if name == "nextitem":
            return self.items[index0 + 1] if index0 + 1 < length else missing
        attributes: dict[str, Any] = {
            "index": index0 + 1,
            "index0": index0,
            "revindex": length - index0,
            "revindex0": length - index0 - 1,
            "first": index0 == 0,
            "last": index0 == length - 1,
            "length": length,
            "depth": 1,  # in Jinja the depth of recursive calls, which are not supported
            "depth0": 0,
        }
        return attributes.get(name, missing)

    def cycle(self, *values: Any) -> Any:
        """Return one of the values: the first one in the first iteration, then the next one in each iteration."""
        if not values:
            raise ExpressionError("loop.cycle() needs at least one value")
        return values[self.index0 % len(values)]

    def changed(self, *values: Any) -> bool:
        """Return whether the values differ from those of the previous call. The caller pays for the comparison."""
        last_values, self._last_values = self._last_values, values
        return last_values != values


class Group(list[Any]):
    """A pair from the filter `groupby`: a value and the list of items that have it, as `.grouper` and `.list`."""


def get_attribute(value: Any, name: str, missing: Missing) -> Any:
    """Evaluate `value.name`: a key of a map, or an item of a list by its index."""
    if type(value) is dict:
        return cast("dict[str, Any]", value).get(name, missing)
    if isinstance(value, Missing):
        return value
    if isinstance(value, Namespace):
        return value.values.get(name, missing)
    if isinstance(value, Loop):
        return value.get(name, missing)
    if isinstance(value, Group) and name in ("grouper", "list"):
        return value[0] if name == "grouper" else value[1]
    if isinstance(value, list) and len(name) < 10 and name.isdecimal():
        return get_subscript(cast("Any", value), int(name), missing)
    return missing


def get_subscript(value: Any, key: Any, missing: Missing) -> Any:
    """Evaluate `value[key]`: a key of a map, an item of a list, or a character of a string."""
    if isinstance(value, Missing):
        return value
    try:
        if isinstance(value, dict) or (isinstance(value, str | list) and isinstance(key, int)):
            return cast("Any", value)[key]
    except (LookupError, TypeError):
        return missing
    return get_attribute(value, key, missing) if isinstance(key, str) else missing


def to_json(value: Any) -> Any:
    """Return a value as plain JSON: groups become lists, and keys of maps strings.

    The caller has paid for a pass over the value and everything in it. Raises ExpressionError for a value that exists
    only during a rendering.
    """
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {key_to_string(key): item if type(item) in SCALARS else to_json(item) for key, item in items}
    if isinstance(value, list):
        return [item if type(item) in SCALARS else to_json(item) for item in cast("list[Any]", value)]
    _refuse_internal(value)
    return value


def _refuse_internal(value: object) -> None:
    if isinstance(value, Missing):
        raise UnresolvedName(value)
    if isinstance(value, Namespace | Loop):
        raise ExpressionError("a namespace or loop cannot be written: use one of its attributes")


def json_default(value: object) -> str:
    """Return a value that is not JSON as a string, for JSON encoders.

    Raises ExpressionError for a value that exists only during a rendering.
    """
    _refuse_internal(value)
    return str(value)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, default=json_default)


def to_text(value: Any) -> str:
    """Return a value as text for the output: strings unchanged, everything else as JSON.

    Raises ExpressionError, ValueError or RecursionError for a value that cannot be written.
    """
    return value if isinstance(value, str) else _ENCODER.encode(value)
