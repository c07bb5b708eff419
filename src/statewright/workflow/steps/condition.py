"""Which of two ways a condition takes: a path into the state, and whether its value is true in JavaScript."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

_MISSING: Any = object()


def holds(expression: str, state: Mapping[str, Any]) -> bool:
    """Whether what a path leads to counts as true. What is not there does not."""
    value: Any = state
    for part in expression.strip().split("."):
        value = _under(value, part)
        if value is _MISSING:
            return False
    return is_true(value)


def _under(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(part, _MISSING)
    if isinstance(value, list) and part.isascii() and part.isdigit():
        items = cast("list[Any]", value)
        return items[int(part)] if int(part) < len(items) else _MISSING
    return _MISSING


def is_true(value: Any) -> bool:
    """Truth as JavaScript has it: null, false, 0, NaN and empty text are false; an empty list or map is true."""
    if isinstance(value, float) and value != value:
        return False
    return value not in (None, False, 0, "") if not isinstance(value, list | Mapping) else True
