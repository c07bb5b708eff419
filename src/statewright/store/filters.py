"""Filters for searches in a store, such as `{"field": value}` and `{"field": {"$gte": 3}}`."""

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
    """Return whether a value meets all conditions. The keys of `conditions` are paths such as `author.name`.

    Raises InvalidUpdateError for an unknown operator.
    """
    return all(_meets(value, path, condition) for path, condition in conditions.items())


def check_conditions(conditions: Mapping[str, Any]) -> None:
    """Raise InvalidUpdateError for an unknown operator. A search calls this because its store may be empty."""
    for path, condition in conditions.items():
        matches({}, {path: condition})


def _meets(value: Mapping[str, Any], path: str, condition: Any) -> bool:
    actual = _value_at(value, path)
    operands = cast(dict[Any, Any], condition) if isinstance(condition, dict) else {}
    if not any(str(name).startswith("$") for name in operands):
        return actual is not _MISSING and bool(actual == condition)
    for name in operands:
        _operator(str(name))  # raises for an unknown operator even if the result does not depend on it
    if actual is _MISSING:
        return all(name in ("$ne", "$nin") or (name == "$exists" and not operand) for name, operand in operands.items())
    return all(_compare(str(name), actual, operand) for name, operand in operands.items())


def _value_at(value: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `author.name`; _MISSING if there is none."""
    if path in value:  # a key may contain dots
        return value[path]
    current: Any = value
    for key in path.split("."):
        if not isinstance(current, Mapping) or key not in current:
            return _MISSING
        current = cast("Mapping[str, Any]", current)[key]
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
    except TypeError:  # values of different types cannot be ordered, and `in` requires a container
        return name == "$nin"
