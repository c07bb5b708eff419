"""The scope and the work budget of one evaluation of an expression or a template.

Expressions have no loops, but they read values of any size, and templates do have loops. The work and memory of both
are limited by counting units of work instead of measuring time, so the same input passes or fails on every machine.

One rule covers all operations. Each character or item that is read or created costs one unit. Each small piece of
Python code that is executed costs a step, which is `STEP_COST` units: the lookup of a name, an operator, a call, a loop
iteration, each item that a filter visits, each part of a path. A new object costs as much as a step, because it takes
as much memory as ten items. An operation pays in advance for the size of its operands and of its result, and pays again
each time that it reads a value. So time and memory are at most proportional to the units that were paid.

Rejected: a separate price for each function, because it is easily forgotten when a function is added or changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from itertools import chain
from math import isfinite
from typing import Any, Final, cast

from statewright.errors import ExpressionError

WORK_LIMIT: Final = 16_000_000
"""Units of work for one evaluation."""
STEP_COST: Final = 10
"""Units of work for one step, and for one new object."""
ENTRY_COST: Final = 5
"""Units of work for one entry of a map, in addition to those for its key and its value."""
FLOAT_SIZE: Final = 18
"""Approximate characters of a float."""
EXPRESSION_VALUE_LIMIT: Final = 65_536
"""Maximum characters, or items, of one value that an expression creates."""
INTEGER_LIMIT: Final = 2**63
"""Exclusive bound of the integers that an evaluation creates. Not every database can store larger integers."""
OPERAND_BITS: Final = 1024
"""Maximum bits of an operand of arithmetic. Longer integers in a scope can only be printed and compared."""


class WorkLimitExceeded(ExpressionError):
    """An evaluation needs more work or memory than its budget allows."""


class Evaluation:
    """One evaluation: its scope of names, and the remaining units of work."""

    __slots__ = ("scope", "value_limit", "work_left")
    work_left: int
    """The remaining units of work."""

    def __init__(
        self, scope: Mapping[str, Any], *, work: int = WORK_LIMIT, value_limit: int = EXPRESSION_VALUE_LIMIT
    ) -> None:
        self.scope = scope
        self.work_left = work
        self.value_limit = value_limit

    def spend(self, units: int) -> None:
        """Pay for work. Raises WorkLimitExceeded if fewer units are left."""
        self.work_left -= units
        if self.work_left < 0:
            raise WorkLimitExceeded("it takes too much work: pass less data, or split it up")

    def spend_steps(self, count: int) -> None:
        """Pay for steps, or for objects that are about to be created."""
        self.spend(STEP_COST * count)

    def spend_pass(self, value: object) -> None:
        """Pay for one pass over the characters of a string, the items of a list or the keys of a map."""
        if isinstance(value, str | list | dict):
            self.spend(len(cast("Sized", value)))

    def spend_deep(self, value: object, times: int = 1) -> None:
        """Pay for `times` passes over a value and everything that it contains."""
        if isinstance(value, list | dict):
            self.spend(times * measure(cast("object", value), self.work_left // times))
        else:
            self.spend(times * _measure_leaf(value))

    def reserve(self, size: int) -> None:
        """Pay for a value that is about to be created. Raises WorkLimitExceeded if it would be too large."""
        self.check_size(size)
        self.spend(size)

    def check_size(self, size: int) -> None:
        """Raise WorkLimitExceeded if a value of this size would be too large."""
        if size > self.value_limit:
            raise WorkLimitExceeded(f"a value would be larger than {self.value_limit} characters or items")


def check_number(value: Any) -> Any:
    """Return the value. Raises ExpressionError for a number that is not finite, or has more than 63 bits."""
    if isinstance(value, float):
        if not isfinite(value):
            raise ExpressionError("the number is not finite")
    elif isinstance(value, int) and not -INTEGER_LIMIT <= value < INTEGER_LIMIT:
        raise ExpressionError("the number has more than 63 bits")
    return value


def check_operand(value: Any) -> Any:
    """Return the value. Raises ExpressionError for an integer that is too long to compute with."""
    if isinstance(value, int) and value.bit_length() > OPERAND_BITS:
        raise ExpressionError(f"a number has more than {OPERAND_BITS} bits: pass it as a string")
    return value


def measure(value: object, limit: int = EXPRESSION_VALUE_LIMIT) -> int:
    """Return the size of a value and everything that it contains, in units of work.

    Counting stops at `limit`, so even a value that contains itself has a size.
    """
    # Not recursive, because values from outside may be nested deeply. Scalars are counted in the loop over their
    # container, because a call for each of them would take longer than most operations that are measured.
    total = 1 + _measure_leaf(value)
    stack = [value]
    while stack and total <= limit:
        container: Any = stack.pop()
        members: Iterable[Any]
        if isinstance(container, dict):
            entries = cast("dict[Any, Any]", container)
            total += STEP_COST + (2 + ENTRY_COST) * len(entries)
            members = chain(entries, entries.values())
        elif isinstance(container, list | tuple):
            members = cast("list[Any]", container)
            total += STEP_COST + len(members)
        else:
            continue
        if total > limit:
            break
        for member in members:
            member_type = cast("type[Any]", type(member))
            if member_type is str:
                total += len(member)
            elif member_type is int:
                total += member.bit_length() // 3
            elif member_type is float:
                total += FLOAT_SIZE
            elif member_type is list or isinstance(member, dict | list | tuple):
                stack.append(cast("object", member))
    return total


def _measure_leaf(value: object) -> int:
    """Return the size of a string or a number."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    return FLOAT_SIZE if isinstance(value, float) else 0
