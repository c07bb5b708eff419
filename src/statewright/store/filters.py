"""Which values meet a filter: `{"field": value}`, or `{"field": {"$gte": 3}}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from statewright.errors import InvalidUpdateError, suggestion

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda found, wanted: found == wanted,
    "$ne": lambda found, wanted: found != wanted,
    "$gt": lambda found, wanted: found > wanted,
    "$gte": lambda found, wanted: found >= wanted,
    "$lt": lambda found, wanted: found < wanted,
    "$lte": lambda found, wanted: found <= wanted,
    "$in": lambda found, wanted: found in wanted,
    "$nin": lambda found, wanted: found not in wanted,
    "$contains": lambda found, wanted: wanted in found,
    "$exists": lambda found, wanted: bool(wanted),
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a value meets every condition. Raises InvalidUpdateError for an unknown operator."""
    return all(_holds(value, path, condition) for path, condition in wanted.items())


def _holds(value: Mapping[str, Any], path: str, condition: Any) -> bool:
    found, is_there = _at(value, path)
    conditions = cast(dict[Any, Any], condition) if isinstance(condition, dict) else {}
    if not any(str(name).startswith("$") for name in conditions):
        return is_there and bool(found == condition)
    for name in conditions:
        _operator(str(name))
    if not is_there:
        return all(name in ("$ne", "$nin") or (name == "$exists" and not wanted) for name, wanted in conditions.items())
    return all(_compared(str(name), found, wanted) for name, wanted in conditions.items())


def _at(value: Mapping[str, Any], path: str) -> tuple[Any, bool]:
    """Return the value at a path like `author.name`, and whether it exists."""
    if path in value:
        return value[path], True
    found: list[Any] = [value]
    for part in path.split("."):
        inside = cast("Mapping[str, Any] | None", found[-1] if isinstance(found[-1], Mapping) else None)
        if inside is None or part not in inside:
            return None, False
        found.append(inside[part])
    return cast(Any, found[-1]), True


def _operator(name: str) -> Callable[[Any, Any], bool]:
    operator = OPERATORS.get(name)
    if operator is None:
        hint = suggestion(name, OPERATORS, noun="Operators")
        raise InvalidUpdateError(f"Unknown operator {name!r} in a search filter. {hint}")
    return operator


def _compared(name: str, found: Any, wanted: Any) -> bool:
    try:
        return _operator(name)(found, wanted)
    except TypeError:  # values of different kinds are in no order, and what is no collection holds nothing
        return name == "$nin"
