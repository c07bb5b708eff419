"""The scope and the work budget of one evaluation of an expression or a template.

Expressions have no loops, but they read values of any size. Templates have loops. Both are bounded in work and memory
by counting, never by time: the same input always passes or always fails, on every machine.

The unit of work is one character or item that is read or made. A step of the evaluator (a name, an operator, a call, a
turn of a loop) costs `STEP_COST` units, about what it takes in time. Whatever passes over a value pays for its size
before it begins; whatever makes a value that is larger than what it read pays for the size of the result before it is
made. A value that holds another one several times is paid for as often as a reader would meet it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from math import isfinite
from typing import Any, Final, cast

from statewright.errors import ExpressionError

WORK_LIMIT: Final = 16_000_000
"""Units of work for one evaluation."""
STEP_COST: Final = 10
"""Units of work for one step of a template."""
EXPRESSION_VALUE_LIMIT: Final = 65_536
"""Characters, or items, of one value that an expression makes."""
INTEGER_LIMIT: Final = 2**63
"""Exclusive bound of the integers that an evaluation makes; larger ones cannot be stored everywhere."""


class WorkLimitExceeded(ExpressionError):
    """An evaluation needs more work, or more memory, than it may use."""


class Evaluation:
    """One evaluation: the names that it may read, and the units of work that are left."""

    __slots__ = ("scope", "value_limit", "work_left")
    work_left: int
    """Units that may still be spent."""

    def __init__(
        self, scope: Mapping[str, Any], *, work: int = WORK_LIMIT, value_limit: int = EXPRESSION_VALUE_LIMIT
    ) -> None:
        self.scope = scope
        self.work_left = work
        self.value_limit = value_limit

    def spend(self, units: int) -> None:
        """Pay for work. Raises WorkLimitExceeded if too little is left."""
        self.work_left -= units
        if self.work_left < 0:
            raise WorkLimitExceeded("it takes too much work: pass less to it, or split it up")

    def spend_pass(self, value: object) -> None:
        """Pay for one pass over the characters of a text, the items of a list or the keys of a map."""
        if isinstance(value, str | list | dict):
            self.spend(len(cast("Sized", value)))

    def spend_deep(self, value: object, times: int = 1) -> None:
        """Pay for `times` passes over a value with everything that it holds."""
        if isinstance(value, list | dict):
            self.spend(times * extent(cast("object", value), self.work_left // times))
        elif isinstance(value, str):
            self.spend(times * len(value))

    def reserve(self, size: int) -> None:
        """Pay for a value that is about to be made. Raises WorkLimitExceeded if it would be too large."""
        if size > self.value_limit:
            raise WorkLimitExceeded(f"a value would be larger than {self.value_limit} characters")
        self.spend(size)


def checked_number(value: Any) -> Any:
    """Return the value. Raises ExpressionError for a number that cannot be stored everywhere."""
    if isinstance(value, float):
        if not isfinite(value):
            raise ExpressionError("the number is not finite")
    elif isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        raise ExpressionError("the number has more than 63 bits")
    return value


def extent(value: object, limit: int = EXPRESSION_VALUE_LIMIT) -> int:
    """Return the size of a value with everything that it holds, in characters and items.

    Counting stops when `limit` is passed, so a value that contains itself has a size too.
    """
    total = 1 + _own_size(value)
    waiting = [value]
    while waiting and total <= limit:
        container: Any = waiting.pop()
        if isinstance(container, dict):
            members = [*cast("dict[Any, Any]", container), *cast("dict[Any, Any]", container).values()]
        elif isinstance(container, list):
            members = cast("list[Any]", container)[: limit + 1]
        else:
            continue
        total += len(members)
        for member in members:
            kind = cast("type[Any]", type(member))
            if kind is str:
                total += len(member)
            elif kind is int:
                total += member.bit_length() // 3
            elif kind is list or isinstance(member, dict | list):
                waiting.append(cast("object", member))
    return total


def _own_size(value: object) -> int:
    """The size of a text or of the digits of a number."""
    if isinstance(value, str):
        return len(value)
    return value.bit_length() // 3 if isinstance(value, int) else 0
