"""Filters for searches in a store: `{"field": value}`, or `{"field": {"$gte": 3}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError, suggestion

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda actual, operand: actual == operand,
    "$ne": lambda actual, operand: actual != operand,
    "$gt": lambda actual, operand: actual > operand,
    "$gte": lambda actual, operand: actual >= operand,
    "$lt": lambda actual, operand: actual < operand,
    "$lte": lambda actual, operand: actual <= operand,
    "$in": lambda actual, operand: actual in operand,
    "$nin": lambda actual, operand: actual not in operand,
    "$contains": lambda actual, operand: operand in actual,
    "$exists": lambda actual, operand: bool(operand),
}
_MISSING: Any = object()


def matches(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Return whether a value meets all conditions, which are keyed by path.

    Raises InvalidUpdateError for an unknown operator.
    """
    return all(_meets(value, path, condition) for path, condition in conditions.items())


def check_conditions(conditions: Mapping[str, Any]) -> None:
    """Raise InvalidUpdateError for an unknown operator, which an empty store would not notice."""
    for path, condition in conditions.items():
        matches({}, {path: condition})


def _meets(value: Mapping[str, Any], path: str, condition: Any) -> bool:
    actual = _value_at(value, path)
    operands = cast(dict[Any, Any], condition) if isinstance(condition, dict) else {}
    if not any(str(name).startswith("$") for name in operands):
        return actual is not _MISSING and bool(actual == condition)
    for name in operands:
        _operator(str(name))  # report an unknown operator even if the result does not depend on it
    if actual is _MISSING:
        return all(name in ("$ne", "$nin") or (name == "$exists" and not operand) for name, operand in operands.items())
    return all(_compare(str(name), actual, operand) for name, operand in operands.items())


def _value_at(value: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `author.name`; _MISSING if there is none."""
    if path in value:  # a key may contain dots
        return value[path]
    current: Any = value
    for part in path.split("."):
        if not isinstance(current, Mapping) or part not in current:
            return _MISSING
        current = cast("Mapping[str, Any]", current)[part]
    return current


def _operator(name: str) -> Callable[[Any, Any], bool]:
    operator = OPERATORS.get(name)
    if operator is None:
        hint = suggestion(name, OPERATORS, noun="Operators")
        raise InvalidUpdateError(f"Unknown operator {name!r} in a search filter. {hint}")
    return operator


def _compare(name: str, actual: Any, operand: Any) -> bool:
    try:
        return _operator(name)(actual, operand)
    except TypeError:  # values of different types have no order, and a number contains nothing
        return name == "$nin"
