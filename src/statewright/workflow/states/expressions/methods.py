"""The methods that an expression may call on a value, by the type of the value. None of them changes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import Run, check_made
from statewright.workflow.states.expressions.operators import contains, kind

_STRIP_LIMIT: Final = 100
"""Characters to strip: each is compared with each."""


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    if len(new) > len(old):
        check_made(found * len(new))
    return text.replace(old, new, count)


def _strip(function: Callable[..., str]) -> Callable[..., str]:
    def strip(text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > _STRIP_LIMIT:
            raise ExpressionError(f"at most {_STRIP_LIMIT} different characters are stripped")
        return function(text, characters)

    return strip


def _prefixed(function: Callable[..., bool]) -> Callable[..., bool]:
    """With a list of several beginnings or endings too."""

    def test(text: str, affix: Any) -> bool:
        return function(text, tuple(cast(list[str], affix)) if isinstance(affix, list) else affix)

    return test


def _contains(value: Any, part: Any) -> bool:
    return contains(part, value)


def _count(items: list[Any], value: Any) -> int:
    return items.count(value)


def _index(items: list[Any], value: Any) -> int:
    return items.index(value)


def _get(value: dict[str, Any], key: Any, default: Any = None) -> Any:
    return value.get(key, default)


def _values(value: dict[str, Any]) -> list[Any]:
    return list(value.values())


def _pairs(value: dict[str, Any]) -> list[Any]:
    return [list(pair) for pair in value.items()]


_TEXT: Final[dict[str, Callable[..., Any]]] = {
    "lower": str.lower,
    "upper": str.upper,
    "strip": _strip(str.strip),
    "lstrip": _strip(str.lstrip),
    "rstrip": _strip(str.rstrip),
    "startswith": _prefixed(str.startswith),
    "endswith": _prefixed(str.endswith),
    "contains": _contains,
    "replace": _replace,
    "split": str.split,
    "title": str.title,
    "count": str.count,
    "find": str.find,
}
_LIST: Final[dict[str, Callable[..., Any]]] = {
    "count": _count,
    "index": _index,
    "contains": _contains,
}
_MAP: Final[dict[str, Callable[..., Any]]] = {
    "get": _get,
    "keys": list,
    "values": _values,
    "items": _pairs,
}
METHODS: Final[Mapping[type, Mapping[str, Callable[..., Any]]]] = MappingProxyType(
    {str: _TEXT, list: _LIST, dict: _MAP}
)
KNOWN_METHODS: Final = frozenset(name for table in METHODS.values() for name in table)


def call_method(run: Run, value: Any, name: str, args: list[Any]) -> Any:
    """What a method answers. Raises ExpressionError if values of that type have no such method."""
    function = METHODS.get(cast(Any, type(value)), {}).get(name)
    if function is None:
        raise ExpressionError(f"{kind(value)} has no method .{name}()")
    run.spend(value)
    return function(value, *args)
