"""The operators of expressions and templates, on plain JSON values.

Each function takes the evaluation, which it charges for the work, followed by its operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import (
    OPERAND_BITS,
    Evaluation,
    check_number,
    check_operand,
    measure,
)

Operator = Callable[[Evaluation, Any, Any], Any]


class UndefinedName(ExpressionError):
    """An expression reads a name that its scope does not contain."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"{name!r} is not defined")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _make_arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Operator:
    def compute(evaluation: Evaluation, left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            raise ExpressionError(f"{symbol} needs two numbers, not {describe_type(left)} and {describe_type(right)}")
        return check_number(function(check_operand(left), check_operand(right)))

    return compute


_add_numbers = _make_arithmetic("+", operator.add)
_multiply_numbers = _make_arithmetic("*", operator.mul)


def add(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Add two numbers, or concatenate two strings or two lists."""
    if (isinstance(left, str) and isinstance(right, str)) or (isinstance(left, list) and isinstance(right, list)):
        evaluation.reserve(len(cast("str", left)) + len(cast("str", right)))
        return cast("Any", left) + right
    return _add_numbers(evaluation, left, right)


def multiply(evaluation: Evaluation, left: Any, right: Any) -> Any:
    """Multiply two numbers, or repeat a string or list."""
    for sequence, times in ((left, right), (right, left)):  # as in `3 * "ab"` and `"ab" * 3`
        if isinstance(sequence, str | list) and isinstance(times, int):
            count = max(check_operand(times), 0)
            # The length is checked first, because measuring the items of a list may take long.
            evaluation.check_size(count * len(cast("list[Any]", sequence)))
            size = measure(cast("object", sequence), min(evaluation.value_limit, evaluation.work_left))
            evaluation.spend(size)
            evaluation.reserve(count * size)
            return cast("Any", sequence) * times
    return _multiply_numbers(evaluation, left, right)


def contains(evaluation: Evaluation, container: Any, part: Any) -> bool:
    """Return whether a string contains a substring, a list an item, or a map a key."""
    if not isinstance(container, str | list | dict):
        raise ExpressionError(f"`in` needs a string, list or map on its right, not {describe_type(container)}")
    if not isinstance(container, dict):
        evaluation.spend_deep(cast("object", container))
    return part in container


def _make_comparison(function: Callable[[Any, Any], Any]) -> Operator:
    def compare(evaluation: Evaluation, left: Any, right: Any) -> Any:
        # Strings are compared up to the length of the shorter one, other values with everything they contain.
        if isinstance(left, str):
            evaluation.spend(min(len(left), len(right)) if isinstance(right, str) else 0)
        elif isinstance(left, list | dict) or (isinstance(left, int) and left.bit_length() > OPERAND_BITS):
            evaluation.spend_deep(cast("object", left))
        return function(left, right)

    return compare


def _is_same(left: Any, right: Any) -> bool:
    """Evaluate `is`. JSON values have no identity, so it is true for equal values of the same type."""
    return type(left) is type(right) and left == right


BINARY: Final[dict[str, Operator]] = {
    "Add": add,
    "Sub": _make_arithmetic("-", operator.sub),
    "Mult": multiply,
    "Div": _make_arithmetic("/", lambda left, right: left / right),
    "FloorDiv": _make_arithmetic("//", lambda left, right: left // right),
    "Mod": _make_arithmetic("%", operator.mod),
}
"""Binary operators, by their names in Python's `ast`."""
COMPARE: Final[dict[str, Operator]] = {
    "Eq": _make_comparison(operator.eq),
    "NotEq": _make_comparison(operator.ne),
    "Lt": _make_comparison(operator.lt),
    "LtE": _make_comparison(operator.le),
    "Gt": _make_comparison(operator.gt),
    "GtE": _make_comparison(operator.ge),
    "In": lambda evaluation, left, right: contains(evaluation, right, left),
    "NotIn": lambda evaluation, left, right: not contains(evaluation, right, left),
    "Is": _make_comparison(_is_same),
    "IsNot": _make_comparison(lambda left, right: not _is_same(left, right)),
}
"""Comparisons, by their names in Python's `ast`."""


def _make_unary(symbol: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def compute(value: Any) -> Any:
        if not _is_number(value):
            raise ExpressionError(f"{symbol} needs a number, not {describe_type(value)}")
        return function(check_operand(value))

    return compute


negate: Final = _make_unary("-", lambda value: check_number(-value))
unary_plus: Final = _make_unary("+", operator.pos)


def get_key(value: Any, name: str) -> Any:
    """Evaluate `value.name`, which is a key of a map unless a call follows."""
    if not isinstance(value, dict):
        raise ExpressionError(f".{name} needs a map, not {describe_type(value)}")
    try:
        return cast("dict[str, Any]", value)[name]
    except KeyError:
        raise ExpressionError(f"the map has no key {name!r}") from None


def get_item(value: Any, key: Any) -> Any:
    """Evaluate `value[key]`: an item of a list, a character of a string, or the value of a map's key."""
    if isinstance(value, dict):
        if key not in value:
            raise ExpressionError(f"the map has no key {str(key)[:40]!r}")
        return cast("dict[Any, Any]", value)[key]
    if not isinstance(value, str | list) or not isinstance(key, int):
        raise ExpressionError(f"{describe_type(cast('object', value))} cannot be indexed with {describe_type(key)}")
    return cast("list[Any]", value)[key]


def get_slice(evaluation: Evaluation, value: Any, start: Any, stop: Any, step: Any = None) -> Any:
    """Evaluate `value[start:stop:step]` for a string or a list."""
    if not isinstance(value, str | list):
        raise ExpressionError(f"{describe_type(value)} cannot be sliced")
    bounds = slice(start, stop, step)
    evaluation.spend(len(range(*bounds.indices(len(cast("list[Any]", value))))))
    return cast("list[Any]", value)[bounds]


def describe_type(value: object) -> str:
    """Return the type of a value with its article, in the words that authors use: `a map`, `a string`."""
    return _TYPE_NAMES.get(type(value), "another value")


_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a map",
}
