"""The tests of templates, which follow `is`. Each takes the rendering, then the value.

A missing value passes `undefined` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from statewright.workflow.states.expressions.evaluation import checked_operand
from statewright.workflow.states.expressions.operators import COMPARE
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing

Test = Callable[..., Any]


def _of_value(holds: Callable[[Any], bool]) -> Test:
    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and holds(value)

    return test


def _of_type(*types: type) -> Test:
    return _of_value(lambda value: type(value) in types)


def _of_text(holds: Callable[[str], bool]) -> Test:
    """Return a test of the text of any value."""

    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and holds(rendering.text_of(value))

    return test


def _has_items(value: Any) -> bool:
    return isinstance(value, str | list | dict)


def compare(rendering: Rendering, name: str, left: Any, right: Any) -> bool:
    """Compare two values. If one is missing, only `!=` and `not in` are true."""
    if isinstance(left, Missing) or isinstance(right, Missing):
        return name in ("NotEq", "NotIn")
    return bool(COMPARE[name](rendering, left, right))


def _comparing(name: str) -> Test:
    def test(rendering: Rendering, value: Any, other: Any) -> bool:
        return compare(rendering, name, value, other)

    return test


def _divisible_by(rendering: Rendering, value: Any, num: int) -> bool:
    return _remainder(value, num) == 0


def _remainder(value: Any, number: Any) -> Any:
    """Return the remainder; None if an operand is not a number, because `%` would format a text."""
    if not (isinstance(value, int | float) and isinstance(number, int | float)):
        return None
    return checked_operand(value) % checked_operand(number)


def _defined(rendering: Rendering, value: Any) -> bool:
    return not isinstance(value, Missing)


def _undefined(rendering: Rendering, value: Any) -> bool:
    return isinstance(value, Missing)


def _truthy(rendering: Rendering, value: Any) -> bool:
    return bool(value)


TESTS: Final[Mapping[str, Test]] = MappingProxyType(
    {
        "boolean": _of_type(bool),
        "defined": _defined,
        "divisibleby": _divisible_by,
        "even": _of_value(lambda value: _remainder(value, 2) == 0),
        "false": _of_value(lambda value: value is False),
        "float": _of_type(float),
        "integer": _of_type(int),
        "iterable": _of_value(_has_items),
        "lower": _of_text(str.islower),
        "mapping": _of_type(dict),
        "none": _of_value(lambda value: value is None),
        "number": _of_type(bool, int, float),
        "odd": _of_value(lambda value: _remainder(value, 2) == 1),
        "sequence": _of_value(_has_items),
        "string": _of_type(str),
        "true": _of_value(lambda value: value is True),
        "truthy": _truthy,
        "undefined": _undefined,
        "upper": _of_text(str.isupper),
        "in": _comparing("In"),
        "sameas": _comparing("Is"),
        **dict.fromkeys(("eq", "equalto", "=="), _comparing("Eq")),
        **dict.fromkeys(("ne", "!="), _comparing("NotEq")),
        **dict.fromkeys(("lt", "lessthan", "<"), _comparing("Lt")),
        **dict.fromkeys(("le", "<="), _comparing("LtE")),
        **dict.fromkeys(("gt", "greaterthan", ">"), _comparing("Gt")),
        **dict.fromkeys(("ge", ">="), _comparing("GtE")),
    }
)
"""By name."""
