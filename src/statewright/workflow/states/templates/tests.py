"""The tests of templates, which follow `is`. Each takes the rendering, the tested value and the arguments.

A missing value passes only `undefined` and `ne`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from statewright.workflow.states.expressions.evaluation import check_operand
from statewright.workflow.states.expressions.operators import COMPARE
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Missing

Test = Callable[..., Any]


def _value_test(predicate: Callable[[Any], bool]) -> Test:
    """Return a test of a value, which must not be missing."""

    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and predicate(value)

    return test


def _type_test(*types: type) -> Test:
    return _value_test(lambda value: type(value) in types)


def _text_test(predicate: Callable[[str], bool]) -> Test:
    """Return a test of a value as text."""

    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and predicate(rendering.to_text(value))

    return test


def compare(rendering: Rendering, name: str, left: Any, right: Any) -> bool:
    """Compare two values; `name` is from Python's `ast`. If a value is missing, only `!=` and `not in` are true."""
    if isinstance(left, Missing) or isinstance(right, Missing):
        return name in ("NotEq", "NotIn")
    return bool(COMPARE[name](rendering, left, right))


def _comparison(name: str) -> Test:
    def test(rendering: Rendering, value: Any, other: Any) -> bool:
        return compare(rendering, name, value, other)

    return test


def _is_divisible(rendering: Rendering, value: Any, num: int) -> bool:
    return _remainder(value, num) == 0


def _remainder(value: Any, divisor: Any) -> Any:
    """Return the remainder; None if an operand is not a number, because `%` would format a string."""
    if not (isinstance(value, int | float) and isinstance(divisor, int | float)):
        return None
    return check_operand(value) % check_operand(divisor)


def _is_undefined(rendering: Rendering, value: Any) -> bool:
    return isinstance(value, Missing)


TESTS: Final[Mapping[str, Test]] = MappingProxyType(
    {
        "boolean": _type_test(bool),
        "defined": _value_test(lambda value: True),
        "divisibleby": _is_divisible,
        "even": _value_test(lambda value: _remainder(value, 2) == 0),
        "false": _value_test(lambda value: value is False),
        "float": _type_test(float),
        "integer": _type_test(int),
        "lower": _text_test(str.islower),
        "mapping": _type_test(dict),
        "none": _type_test(type(None)),
        "number": _type_test(bool, int, float),
        "odd": _value_test(lambda value: _remainder(value, 2) == 1),
        "string": _type_test(str),
        "true": _value_test(lambda value: value is True),
        "truthy": _value_test(bool),
        "undefined": _is_undefined,
        "upper": _text_test(str.isupper),
        "in": _comparison("In"),
        "sameas": _comparison("Is"),
        **dict.fromkeys(("iterable", "sequence"), _value_test(lambda value: isinstance(value, str | list | dict))),
        **dict.fromkeys(("eq", "equalto", "=="), _comparison("Eq")),
        **dict.fromkeys(("ne", "!="), _comparison("NotEq")),
        **dict.fromkeys(("lt", "lessthan", "<"), _comparison("Lt")),
        **dict.fromkeys(("le", "<="), _comparison("LtE")),
        **dict.fromkeys(("gt", "greaterthan", ">"), _comparison("Gt")),
        **dict.fromkeys(("ge", ">="), _comparison("GtE")),
    }
)
"""The tests by name."""
