"""The functions that an expression may call by name. Each takes the evaluation that pays for it, then its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import Run, check_made, checked_number, extent
from statewright.workflow.states.expressions.operators import kind

TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
)
"""The names that `isinstance` takes as its second argument."""
_MAX_DIGITS: Final = 20
"""To so many places is rounded; Python would work for hours on a billion of them."""


def _one(function: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(run: Run, value: Any) -> Any:
        run.spend(value)
        return checked_number(function(value))

    return call


def _many(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """Of one list, or of several values."""

    def call(run: Run, *values: Any) -> Any:
        among = _items(run, values[0]) if len(values) == 1 else list(values)
        return function(among)

    return call


def _items(run: Run, value: Any) -> list[Any]:
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"it goes over texts, lists and maps, and found {kind(value)}")
    run.spend(cast(object, value))
    return list(cast(list[Any], value))


def _over(function: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def call(run: Run, value: Any) -> Any:
        return checked_number(function(_items(run, value)))

    return call


def _text(run: Run, value: Any = "") -> str:
    if isinstance(value, str):
        return value
    check_made(extent(value))
    return str(value)


def _bool(run: Run, value: Any = False) -> bool:
    return bool(value)


def _list(run: Run, *values: Any) -> list[Any]:
    return _items(run, *values) if values else []


def _length(run: Run, value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"len() is for texts, lists and maps, and found {kind(cast(object, value))}")
    return len(cast(list[Any], value))


def _round(run: Run, value: Any, digits: Any = None) -> Any:
    if not isinstance(value, int | float) or not (digits is None or isinstance(digits, int)):
        raise ExpressionError(f"round() is for numbers, and found {kind(value)}")
    if digits is not None and abs(digits) > _MAX_DIGITS:
        raise ExpressionError(f"round() takes at most {_MAX_DIGITS} digits")
    return checked_number(round(value, digits))


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "len": _length,
        "min": _many(min),
        "max": _many(max),
        "sum": _over(sum),
        "abs": _one(abs),
        "str": _text,
        "int": _one(int),
        "float": _one(float),
        "bool": _bool,
        "list": _list,
        "any": _over(any),
        "all": _over(all),
        "round": _round,
        "sorted": _over(sorted),
    }
)
