"""The functions of expressions and templates. Each takes the evaluation first, and charges its work to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import Evaluation, checked_number, checked_operand, extent
from statewright.workflow.states.expressions.operators import describe_kind

Function = Callable[..., Any]
TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
)
"""The names that `isinstance` takes as its second argument."""
_DIGITS_LIMIT: Final = 20
"""Maximum digits for rounding: Python would compute a power of ten of any size."""


def _of_one(function: Callable[[Any], Any]) -> Function:
    def call(evaluation: Evaluation, value: Any) -> Any:
        evaluation.spend_pass(value)
        return checked_number(function(checked_operand(value)))

    return call


def _of_items(function: Callable[[list[Any]], Any]) -> Function:
    def call(evaluation: Evaluation, value: Any) -> Any:
        return checked_number(function(items_of(evaluation, value)))

    return call


def _sum(evaluation: Evaluation, value: Any) -> Any:
    items = items_of(evaluation, value)
    evaluation.spend_deep(items)
    return checked_number(sum(items))


def _extreme(function: Callable[[list[Any]], Any]) -> Function:
    """Return `min` or `max` of one list or of several values."""

    def call(evaluation: Evaluation, *values: Any) -> Any:
        items = items_of(evaluation, values[0]) if len(values) == 1 else list(values)
        evaluation.spend_deep(items)
        return function(items)

    return call


def items_of(evaluation: Evaluation, value: Any) -> list[Any]:
    """Return the items of a list, the keys of a map or the characters of a text, as a list of its own."""
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"{describe_kind(value)} has no items")
    evaluation.spend_pass(cast("object", value))
    if isinstance(value, str):  # each character becomes a text of its own
        evaluation.spend_steps(len(value))
    return list(cast("list[Any]", value))


def sorting_order(evaluation: Evaluation, keys: list[Any], *, reverse: bool = False) -> list[int]:
    """Return the positions of keys in their order, which is stable.

    Each key takes part in about log2(n) comparisons.
    """
    evaluation.spend_deep(keys, times=max(len(keys).bit_length(), 1))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def sorted_items(evaluation: Evaluation, items: list[Any], *, reverse: bool = False) -> list[Any]:
    """Sort a list in a stable order."""
    return [items[position] for position in sorting_order(evaluation, items, reverse=reverse)]


def _sorted(evaluation: Evaluation, value: Any) -> list[Any]:
    return sorted_items(evaluation, items_of(evaluation, value))


def _str(evaluation: Evaluation, value: Any = "") -> str:
    if isinstance(value, str):
        return value
    evaluation.reserve(extent(value, evaluation.value_limit))
    return str(value)


def _bool(evaluation: Evaluation, value: Any = False) -> bool:
    return bool(value)


def _list(evaluation: Evaluation, *values: Any) -> list[Any]:
    return items_of(evaluation, *values) if values else []


def _len(evaluation: Evaluation, value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"{describe_kind(cast('object', value))} has no length")
    return len(cast("list[Any]", value))


def _round(evaluation: Evaluation, value: Any, digits: Any = None) -> Any:
    if not isinstance(value, int | float) or not (digits is None or isinstance(digits, int)):
        raise ExpressionError(f"only numbers can be rounded, not {describe_kind(value)}")
    if digits is not None and abs(digits) > _DIGITS_LIMIT:
        raise ExpressionError(f"a number can be rounded to at most {_DIGITS_LIMIT} digits")
    return checked_number(round(checked_operand(value), digits))


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        "abs": _of_one(abs),
        "all": _of_items(all),
        "any": _of_items(any),
        "bool": _bool,
        "float": _of_one(float),
        "int": _of_one(int),
        "len": _len,
        "list": _list,
        "max": _extreme(max),
        "min": _extreme(min),
        "round": _round,
        "sorted": _sorted,
        "str": _str,
        "sum": _sum,
    }
)
