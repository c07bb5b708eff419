"""The methods that expressions and templates may call on a value, by the exact type of the value.

They are Python's own, except those that reach attributes (`format`), return other types (`encode`) or modify the value.
Each takes the evaluation, the value and the arguments, and charges for everything it reads and creates. Arguments may
be passed by Python's names.
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
"""Maximum characters to strip: each character of the text is compared with each of them."""
_ASCII_SPACES: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
_SPACES: Final = _ASCII_SPACES + (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)

_LINE_ENDS: Final = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"


def count_line_ends(text: str) -> int:
    """Count the characters at which a text is split into lines."""
    return sum(map(text.count, _LINE_ENDS))


def count_spaces(text: str) -> int:
    """Count the characters at which a text is split into words."""
    return sum(map(text.count, _ASCII_SPACES if text.isascii() else _SPACES))


def _linear(function: Callable[..., Any]) -> Method:
    """Return a method whose work and result are proportional to the value and its arguments."""

    def call(evaluation: Evaluation, value: Any, *args: Any) -> Any:
        evaluation.spend_pass(value)
        for arg in args:
            evaluation.spend_pass(arg)
        result = function(value, *args)
        return list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else result

    return call


def _stripping(function: Callable[..., str]) -> Method:
    def call(evaluation: Evaluation, text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > STRIP_LIMIT:
            raise ExpressionError(f"at most {STRIP_LIMIT} characters can be stripped")
        evaluation.spend_pass(text)
        return function(text, characters)

    return call


def _matching(function: Callable[..., bool]) -> Method:
    """Return `startswith` or `endswith`, which also accept a list of affixes."""

    def call(evaluation: Evaluation, text: str, affix: Any, *bounds: Any) -> bool:
        evaluation.spend_deep(affix)
        return function(text, tuple(cast("list[str]", affix)) if isinstance(affix, list) else affix, *bounds)

    return call


def _from_the_right(function: Callable[..., Any]) -> Method:
    """Return a search from the end, whose time may be proportional to the product of both lengths."""
    linear = _linear(function)

    def call(evaluation: Evaluation, text: str, part: str, *args: Any) -> Any:
        evaluation.spend(len(text) * len(part))
        return linear(evaluation, text, part, *args)

    return call


def _splitting(function: Callable[..., list[str]], *, from_the_right: bool) -> Method:
    """Return `split` or `rsplit`, which create a text for each piece."""

    def call(evaluation: Evaluation, text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        evaluation.spend(len(text) * (1 + len(sep or "") * from_the_right))
        cuts = count_spaces(text) if sep is None else text.count(sep)
        evaluation.spend_steps(1 + (cuts if maxsplit < 0 else min(cuts, maxsplit)))
        return function(text, sep, maxsplit)

    return call


def _split_lines(evaluation: Evaluation, text: str, keepends: bool = False) -> list[str]:
    evaluation.spend_pass(text)
    evaluation.spend_steps(1 + count_line_ends(text))
    return text.splitlines(keepends)


def _padding(function: Callable[..., str]) -> Method:
    def call(evaluation: Evaluation, text: str, width: int, *fill: str) -> str:
        evaluation.reserve(max(width, len(text)))
        return function(text, width, *fill)

    return call


def _replace(evaluation: Evaluation, text: str, old: str, new: str, count: int = -1) -> str:
    evaluation.spend(len(text))
    occurrences = text.count(old) if count < 0 else min(count, text.count(old))
    evaluation.reserve(len(text) + occurrences * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def _expand_tabs(evaluation: Evaluation, text: str, tabsize: int = 8) -> str:
    evaluation.reserve(len(text) + text.count("\t") * max(tabsize, 0))
    return text.expandtabs(tabsize)


def _join(evaluation: Evaluation, separator: str, items: Any) -> str:
    if not isinstance(items, list):
        raise ExpressionError(f"join needs a list, not {describe_kind(items)}")
    texts = cast("list[str]", items)
    evaluation.spend_pass(texts)
    evaluation.reserve(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _contains(evaluation: Evaluation, value: Any, part: Any) -> bool:
    return contains(evaluation, value, part)


def _searching(function: Callable[..., int]) -> Method:
    """Return a search in a list, which compares nested values."""

    def call(evaluation: Evaluation, items: list[Any], *args: Any) -> int:
        evaluation.spend_deep(items)
        return function(items, *args)

    return call


def _get(evaluation: Evaluation, value: dict[str, Any], key: Any, default: Any = None) -> Any:
    return value.get(key, default)


def _values(evaluation: Evaluation, value: dict[str, Any]) -> list[Any]:
    evaluation.spend_pass(value)
    return list(value.values())


def items_of_map(evaluation: Evaluation, value: dict[str, Any]) -> list[list[Any]]:
    """Return the pairs of keys and values of a map, each as a list."""
    evaluation.spend_steps(len(value))
    return [list(pair) for pair in value.items()]


def _copy_map(evaluation: Evaluation, value: dict[str, Any]) -> dict[str, Any]:
    evaluation.spend_steps(len(value))
    return value.copy()


_TEXT: Final[dict[str, Method]] = {
    **{
        name: _linear(getattr(str, name))
        for name in (
            *("capitalize", "casefold", "count", "find", "index", "lower", "partition", "removeprefix"),
            *("removesuffix", "swapcase", "title", "upper"),
            *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        )
    },
    **{name: _stripping(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _matching(getattr(str, name)) for name in ("startswith", "endswith")},
    **{name: _from_the_right(getattr(str, name)) for name in ("rfind", "rindex", "rpartition")},
    **{name: _padding(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    "contains": _contains,
    "expandtabs": _expand_tabs,
    "join": _join,
    "replace": _replace,
    "rsplit": _splitting(str.rsplit, from_the_right=True),
    "split": _splitting(str.split, from_the_right=False),
    "splitlines": _split_lines,
}
_LIST: Final[dict[str, Method]] = {
    "contains": _contains,
    "copy": _linear(list[Any].copy),
    "count": _searching(list[Any].count),
    "index": _searching(list[Any].index),
}
_MAP: Final[dict[str, Method]] = {
    "copy": _copy_map,
    "get": _get,
    "items": items_of_map,
    "keys": _linear(list),
    "values": _values,
}
METHODS: Final[Mapping[type, Mapping[str, Method]]] = MappingProxyType({str: _TEXT, list: _LIST, dict: _MAP})
KNOWN_METHODS: Final = frozenset(name for table in METHODS.values() for name in table)


def call_method(evaluation: Evaluation, value: Any, name: str, args: list[Any]) -> Any:
    """Call a method of a value. Raises ExpressionError if its type has no such method, and any error of the method."""
    method = METHODS.get(cast("Any", type(value)), {}).get(name)
    if method is None:
        raise ExpressionError(f"{describe_kind(value)} has no method .{name}()")
    return method(evaluation, value, *args)
