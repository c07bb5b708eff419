"""The tests of templates, which follow `is`. Each test takes the rendering, the tested value and the arguments.

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


def _make_value_test(predicate: Callable[[Any], bool]) -> Test:
    """Return a test that a missing value fails, and any other value passes if the predicate is true."""

    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and predicate(value)

    return test


def _make_type_test(*types: type) -> Test:
    return _make_value_test(lambda value: type(value) in types)


def _make_text_test(predicate: Callable[[str], bool]) -> Test:
    """Return a test of the text that a template would write for a value."""

    def test(rendering: Rendering, value: Any) -> bool:
        return not isinstance(value, Missing) and predicate(rendering.to_text(value))

    return test


def compare(rendering: Rendering, name: str, left: Any, right: Any) -> bool:
    """Compare two values. If one is missing, only `!=` and `not in` are true.

    `name` is the name of the comparison in Python's `ast`, such as `NotEq`.
    """
    if isinstance(left, Missing) or isinstance(right, Missing):
        return name in ("NotEq", "NotIn")
    return bool(COMPARE[name](rendering, left, right))


def _make_comparison(name: str) -> Test:
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
        "boolean": _make_type_test(bool),
        "defined": _make_value_test(lambda value: True),
        "divisibleby": _is_divisible,
        "even": _make_value_test(lambda value: _remainder(value, 2) == 0),
        "false": _make_value_test(lambda value: value is False),
        "float": _make_type_test(float),
        "integer": _make_type_test(int),
        "lower": _make_text_test(str.islower),
        "mapping": _make_type_test(dict),
        "none": _make_type_test(type(None)),
        "number": _make_type_test(bool, int, float),
        "odd": _make_value_test(lambda value: _remainder(value, 2) == 1),
        "string": _make_type_test(str),
        "true": _make_value_test(lambda value: value is True),
        "truthy": _make_value_test(bool),
        "undefined": _is_undefined,
        "upper": _make_text_test(str.isupper),
        "in": _make_comparison("In"),
        "sameas": _make_comparison("Is"),
        **dict.fromkeys(("iterable", "sequence"), _make_value_test(lambda value: isinstance(value, str | list | dict))),
        **dict.fromkeys(("eq", "equalto", "=="), _make_comparison("Eq")),
        **dict.fromkeys(("ne", "!="), _make_comparison("NotEq")),
        **dict.fromkeys(("lt", "lessthan", "<"), _make_comparison("Lt")),
        **dict.fromkeys(("le", "<="), _make_comparison("LtE")),
        **dict.fromkeys(("gt", "greaterthan", ">"), _make_comparison("Gt")),
        **dict.fromkeys(("ge", ">="), _make_comparison("GtE")),
    }
)
"""The tests by name."""
