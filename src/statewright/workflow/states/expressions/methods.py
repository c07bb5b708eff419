"""The methods that expressions and templates may call on a value, by the exact type of the value.

They are Python's own, without those that reach attributes (`format`), leave plain values (`encode`) or change the
value. Each takes the evaluation that pays for it, the value, and the arguments. The caller has paid for one pass over
the value and over each argument; a method that does more, or makes more, pays for that itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import Evaluation
from statewright.workflow.states.expressions.operators import contains, describe_kind

Method = Callable[..., Any]
STRIP_LIMIT: Final = 100
"""Characters to strip: each character of the text is compared with each of them."""


def _linear(function: Callable[..., Any]) -> Method:
    """A method whose work and result are in proportion to the value and its arguments."""

    def call(evaluation: Evaluation, value: Any, *args: Any) -> Any:
        result = function(value, *args)
        return list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else result

    return call


def _stripping(function: Callable[..., str]) -> Method:
    def call(evaluation: Evaluation, text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > STRIP_LIMIT:
            raise ExpressionError(f"at most {STRIP_LIMIT} characters can be stripped")
        return function(text, characters)

    return call


def _matching(function: Callable[..., bool]) -> Method:
    """`startswith` and `endswith`, which take a list of affixes too."""

    def call(evaluation: Evaluation, text: str, affix: Any, *bounds: Any) -> bool:
        return function(text, tuple(cast("list[str]", affix)) if isinstance(affix, list) else affix, *bounds)

    return call


def _from_the_right(function: Callable[..., Any]) -> Method:
    """A search from the end, for which Python compares each place of the text with the whole part."""
    linear = _linear(function)

    def call(evaluation: Evaluation, text: str, part: Any = None, *args: Any) -> Any:
        if isinstance(part, str):
            evaluation.spend(len(text) * len(part))
        return linear(evaluation, text, part, *args)

    return call


def _padding(function: Callable[..., str]) -> Method:
    def call(evaluation: Evaluation, text: str, width: int, *fill: str) -> str:
        evaluation.reserve(max(width, len(text)))
        return function(text, width, *fill)

    return call


def _replace(evaluation: Evaluation, text: str, old: str, new: str, count: int = -1) -> str:
    occurrences = text.count(old) if count < 0 else min(count, text.count(old))
    evaluation.reserve(len(text) + occurrences * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def _expand_tabs(evaluation: Evaluation, text: str, size: int = 8) -> str:
    evaluation.reserve(len(text) + text.count("\t") * max(size, 0))
    return text.expandtabs(size)


def _join(evaluation: Evaluation, separator: str, items: Any) -> str:
    if not isinstance(items, list):
        raise ExpressionError(f"join needs a list, not {describe_kind(items)}")
    texts = cast("list[str]", items)
    evaluation.reserve(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _contains(evaluation: Evaluation, value: Any, part: Any) -> bool:
    return contains(evaluation, value, part)


def _searching(function: Callable[..., int]) -> Method:
    """A search in a list, which compares what the items hold too."""

    def call(evaluation: Evaluation, items: list[Any], *args: Any) -> int:
        evaluation.spend_deep(items)
        return function(items, *args)

    return call


def _get(evaluation: Evaluation, value: dict[str, Any], key: Any, default: Any = None) -> Any:
    return value.get(key, default)


def _values(evaluation: Evaluation, value: dict[str, Any]) -> list[Any]:
    return list(value.values())


def _items(evaluation: Evaluation, value: dict[str, Any]) -> list[Any]:
    return [list(pair) for pair in value.items()]


_TEXT: Final[dict[str, Method]] = {
    **{
        name: _linear(getattr(str, name))
        for name in (
            *("capitalize", "casefold", "count", "find", "index", "lower", "partition", "removeprefix"),
            *("removesuffix", "split", "splitlines", "swapcase", "title", "upper"),
            *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        )
    },
    **{name: _stripping(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _matching(getattr(str, name)) for name in ("startswith", "endswith")},
    **{name: _from_the_right(getattr(str, name)) for name in ("rfind", "rindex", "rpartition", "rsplit")},
    **{name: _padding(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    "contains": _contains,
    "expandtabs": _expand_tabs,
    "join": _join,
    "replace": _replace,
}
_LIST: Final[dict[str, Method]] = {
    "contains": _contains,
    "copy": _linear(list[Any].copy),
    "count": _searching(list[Any].count),
    "index": _searching(list[Any].index),
}
_MAP: Final[dict[str, Method]] = {
    "copy": _linear(dict[Any, Any].copy),
    "get": _get,
    "items": _items,
    "keys": _linear(list),
    "values": _values,
}
METHODS: Final[Mapping[type, Mapping[str, Method]]] = MappingProxyType({str: _TEXT, list: _LIST, dict: _MAP})
KNOWN_METHODS: Final = frozenset(name for table in METHODS.values() for name in table)


def call_method(evaluation: Evaluation, value: Any, name: str, args: list[Any]) -> Any:
    """Call a method of a value. Raises ExpressionError if its type has no such method, and what the method raises."""
    method = METHODS.get(cast("Any", type(value)), {}).get(name)
    if method is None:
        raise ExpressionError(f"{describe_kind(value)} has no method .{name}()")
    evaluation.spend_pass(value)
    for arg in args:
        evaluation.spend_pass(arg)
    return method(evaluation, value, *args)
