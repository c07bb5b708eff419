"""What the signs of the language do to plain values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import check_made, checked_number, extent


class Undefined(ExpressionError):
    """A name that the scope does not have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no {name!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _numbers(sign: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def work_out(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            raise ExpressionError(f"{sign} is for numbers, and found {kind(left)} and {kind(right)}")
        return checked_number(function(left, right))

    return work_out


_add = _numbers("+", operator.add)
_multiply = _numbers("*", operator.mul)


def add(left: Any, right: Any) -> Any:
    """The sum of two numbers, or two texts or lists after each other."""
    if (isinstance(left, str) and isinstance(right, str)) or (isinstance(left, list) and isinstance(right, list)):
        check_made(len(cast(str, left)) + len(cast(str, right)))
        return cast(Any, left) + right
    return _add(left, right)


def multiply(left: Any, right: Any) -> Any:
    """The product of two numbers, or a text or list so many times."""
    for repeated, times in ((left, right), (right, left)):
        if isinstance(repeated, str | list) and isinstance(times, int):
            check_made(max(times, 0) * extent(cast(object, repeated)))
            return cast(Any, repeated) * times
    return _multiply(left, right)


def same(left: Any, right: Any) -> bool:
    """`is`: the same of None, true and false; of anything else, equal and of one kind."""
    return type(left) is type(right) and left == right


def contains(left: Any, right: Any) -> bool:
    """`in`: part of a text, item of a list, key of a map."""
    if not isinstance(right, str | list | dict):
        raise ExpressionError(f"`in` looks into texts, lists and maps, and found {kind(right)}")
    return left in right


BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": add,
    "Sub": _numbers("-", operator.sub),
    "Mult": multiply,
    "Div": _numbers("/", lambda left, right: left / right),
    "FloorDiv": _numbers("//", lambda left, right: left // right),
    "Mod": _numbers("%", operator.mod),
}
COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "In": contains,
    "NotIn": lambda left, right: not contains(left, right),
    "Is": same,
    "IsNot": lambda left, right: not same(left, right),
}


def negative(value: Any) -> Any:
    """A number with its sign turned."""
    if not _is_number(value):
        raise ExpressionError(f"- is for numbers, and found {kind(value)}")
    return checked_number(-value)


def positive(value: Any) -> Any:
    """A number as it is."""
    if not _is_number(value):
        raise ExpressionError(f"+ is for numbers, and found {kind(value)}")
    return +value


def key_of(value: Any, name: str) -> Any:
    """What a map has under a name: the meaning of every dot that no call follows."""
    if not isinstance(value, dict):
        raise ExpressionError(f".{name} reads a key, and found {kind(value)}")
    try:
        return cast(dict[str, Any], value)[name]
    except KeyError:
        raise ExpressionError(f"the map has no key {name!r}") from None


def item_of(value: Any, key: Any) -> Any:
    """An item of a list, a character of a text, or what a map has under a key."""
    if isinstance(value, dict):
        if key not in value:
            raise ExpressionError(f"the map has no key {str(key)[:40]!r}")
        return cast(dict[Any, Any], value)[key]
    if not isinstance(value, str | list) or not isinstance(key, int):
        raise ExpressionError(f"{kind(cast(object, value))} cannot be indexed with {kind(key)}")
    return cast(list[Any], value)[key]


def part_of(value: Any, start: Any, stop: Any) -> Any:
    """A slice of a list or text."""
    if not isinstance(value, str | list):
        raise ExpressionError(f"{kind(value)} has no slices")
    return cast(list[Any], value)[start:stop]


def kind(value: object) -> str:
    """What an author calls such a value."""
    return _KINDS.get(type(value), "something else")


_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a map",
}
