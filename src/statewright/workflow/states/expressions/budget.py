"""What one evaluation may make and touch.

An expression has no loops, so its work is bounded by its nodes, if each step is. A step that makes more than it reads
(repetition, concatenation, replacing, printing) is bounded by `MADE_LIMIT`; one that passes over a value once is paid
for from `WORK_LIMIT`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from math import isfinite
from typing import Any, Final, cast

from statewright.errors import ExpressionError

MADE_LIMIT: Final = 65_536
"""Characters, or items, of a value that an expression makes."""
WORK_LIMIT: Final = 16_000_000
"""Characters and items over which the functions and methods of one evaluation pass, together."""
INTEGER_LIMIT: Final = 2**63
"""No whole number that an expression makes is as large: it could not be stored everywhere."""


class Run:
    """One evaluation: the names it may read, and the work it may still do."""

    __slots__ = ("left", "scope")

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = scope
        self.left = WORK_LIMIT

    def spend(self, value: object) -> None:
        """Pays for one pass over a value. Raises ExpressionError when there is nothing left to pay with."""
        if isinstance(value, str | list | dict):
            self.left -= len(cast(Sized, value))
            if self.left < 0:
                raise ExpressionError(f"the values are too large: more than {WORK_LIMIT} characters were looked at")


def checked_number(value: Any) -> Any:
    """The value, if it is no number or one that can be stored. Raises ExpressionError."""
    if isinstance(value, float):
        if not isfinite(value):
            raise ExpressionError("the number is infinite, or none at all")
    elif isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        raise ExpressionError("the number has more than 63 bits")
    return value


def check_made(size: int) -> None:
    """Raises ExpressionError if an expression would make something of that size."""
    if size > MADE_LIMIT:
        raise ExpressionError(f"the value would be larger than {MADE_LIMIT} characters")


def extent(value: object, limit: int = MADE_LIMIT) -> int:
    """How large a value is, with all that it holds, in characters and items; counted only until it passes the limit."""
    total = 0
    waiting = [value]
    while waiting and total <= limit:
        one: Any = waiting.pop()
        total += 1
        if isinstance(one, str):
            total += len(one)
        elif isinstance(one, list):
            waiting.extend(cast(list[object], one)[: limit + 1])
        elif isinstance(one, dict):
            waiting.extend(cast(dict[object, object], one).keys())
            waiting.extend(cast(dict[object, object], one).values())
        elif isinstance(one, int):
            total += one.bit_length() // 3
    return total
