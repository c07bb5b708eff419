"""The functions and methods that expressions and templates may call.

Each function takes the evaluation as its first argument, and charges it in advance for everything that the function
reads and creates. Methods are chosen by the exact type of the value. They are Python's methods, except those that reach
attributes (`format`), return other types (`encode`) or modify the value. Only templates have named arguments; the names
are those of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import Evaluation, check_number, check_operand, measure
from statewright.workflow.states.expressions.operators import contains, describe_type

Function = Callable[..., Any]
TYPES: Final[Mapping[str, type]] = MappingProxyType(
    {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}
)
"""The types that `isinstance` accepts, by name."""
_DIGITS_LIMIT: Final = 20
"""Maximum digits for rounding. With more digits, Python would compute a huge power of ten."""


def _make_unary(function: Callable[[Any], Any]) -> Function:
    """Return a function of one number or string."""

    def call(evaluation: Evaluation, value: Any) -> Any:
        evaluation.spend_pass(value)
        return check_number(function(check_operand(value)))

    return call


def _make_reduction(function: Callable[[list[Any]], Any], *, deep: bool = False) -> Function:
    """Return a function of the items of one value. With `deep`, it also reads everything that they contain."""

    def call(evaluation: Evaluation, value: Any) -> Any:
        items = list_items(evaluation, value)
        if deep:
            evaluation.spend_deep(items)
        return check_number(function(items))

    return call


def _make_min_or_max(function: Callable[[list[Any]], Any]) -> Function:
    """Return `min` or `max` of one list or of several values."""

    def call(evaluation: Evaluation, *values: Any) -> Any:
        items = list_items(evaluation, values[0]) if len(values) == 1 else list(values)
        evaluation.spend_deep(items)
        return function(items)

    return call


def list_items(evaluation: Evaluation, value: Any) -> list[Any]:
    """Return the items of a list, the keys of a map or the characters of a string, as a new list."""
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"{describe_type(value)} has no items")
    evaluation.spend_pass(cast("object", value))
    if isinstance(value, str):  # each character becomes an object
        evaluation.spend_steps(len(value))
    return list(cast("list[Any]", value))


def sort_positions(evaluation: Evaluation, keys: list[Any], *, reverse: bool = False) -> list[int]:
    """Return the positions of sort keys in sorted order. The sort is stable."""
    # Each key takes part in about log2(n) comparisons.
    evaluation.spend_deep(keys, times=max(len(keys).bit_length(), 1))
    return sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)


def sort_items(evaluation: Evaluation, items: list[Any], *, reverse: bool = False) -> list[Any]:
    """Return a sorted list. The sort is stable."""
    return [items[position] for position in sort_positions(evaluation, items, reverse=reverse)]


def _sorted(evaluation: Evaluation, value: Any) -> list[Any]:
    return sort_items(evaluation, list_items(evaluation, value))


def _str(evaluation: Evaluation, value: Any = "") -> str:
    if isinstance(value, str):
        return value
    evaluation.reserve(measure(value, evaluation.value_limit))
    return str(value)


def _bool(evaluation: Evaluation, value: Any = False) -> bool:
    return bool(value)


def _list(evaluation: Evaluation, *values: Any) -> list[Any]:
    return list_items(evaluation, *values) if values else []


def _len(evaluation: Evaluation, value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise ExpressionError(f"{describe_type(cast('object', value))} has no length")
    return len(cast("list[Any]", value))


def _round(evaluation: Evaluation, value: Any, digits: Any = None) -> Any:
    if not isinstance(value, int | float) or not (digits is None or isinstance(digits, int)):
        raise ExpressionError(f"only numbers can be rounded, not {describe_type(value)}")
    if digits is not None and abs(digits) > _DIGITS_LIMIT:
        raise ExpressionError(f"a number can be rounded to at most {_DIGITS_LIMIT} digits")
    return check_number(round(check_operand(value), digits))


FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType(
    {
        "abs": _make_unary(abs),
        "all": _make_reduction(all),
        "any": _make_reduction(any),
        "bool": _bool,
        "float": _make_unary(float),
        "int": _make_unary(int),
        "len": _len,
        "list": _list,
        "max": _make_min_or_max(max),
        "min": _make_min_or_max(min),
        "round": _round,
        "sorted": _sorted,
        "str": _str,
        "sum": _make_reduction(sum, deep=True),
    }
)


# -- methods

STRIP_LIMIT: Final = 100
"""Maximum characters in the argument of `strip`. Each character of the string may be compared with each of these."""
_ASCII_SPACES: Final = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
_SPACES: Final = _ASCII_SPACES + (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""The characters at which `str.split` splits."""
_LINE_ENDS: Final = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters at which `str.splitlines` splits."""


def count_line_ends(text: str) -> int:
    """Count the characters at which a string is split into lines."""
    return sum(map(text.count, _LINE_ENDS))


def count_spaces(text: str) -> int:
    """Count the characters at which a string is split into words."""
    return sum(map(text.count, _ASCII_SPACES if text.isascii() else _SPACES))


def _make_linear(function: Callable[..., Any]) -> Function:
    """Return a method whose work and result are at most proportional to the sizes of the value and the arguments."""

    def call(evaluation: Evaluation, value: Any, *args: Any) -> Any:
        evaluation.spend_pass(value)
        for arg in args:
            evaluation.spend_pass(arg)
        result = function(value, *args)
        return list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else result

    return call


def _make_strip(function: Callable[..., str]) -> Function:
    """Return `strip`, `lstrip` or `rstrip`."""

    def call(evaluation: Evaluation, text: str, characters: str | None = None) -> str:
        if characters is not None and len(characters) > STRIP_LIMIT:
            raise ExpressionError(f"at most {STRIP_LIMIT} characters can be stripped")
        evaluation.spend_pass(text)
        return function(text, characters)

    return call


def _make_affix_test(function: Callable[..., bool]) -> Function:
    """Return `startswith` or `endswith`, which also accept a list of affixes."""

    def call(evaluation: Evaluation, text: str, affix: Any, *bounds: Any) -> bool:
        evaluation.spend_deep(affix)
        return function(text, tuple(cast("list[str]", affix)) if isinstance(affix, list) else affix, *bounds)

    return call


def _make_right_search(function: Callable[..., Any]) -> Function:
    """Return a search from the end of a string, which may take time proportional to the product of both lengths."""
    linear = _make_linear(function)

    def call(evaluation: Evaluation, text: str, part: str, *args: Any) -> Any:
        evaluation.spend(len(text) * len(part))
        return linear(evaluation, text, part, *args)

    return call


def _make_split(function: Callable[..., list[str]], *, from_the_right: bool) -> Function:
    """Return `split` or `rsplit`, which create a string for each part. `rsplit` searches from the end."""

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


def _make_pad(function: Callable[..., str]) -> Function:
    """Return a method that pads a string to a width."""

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
        raise ExpressionError(f"join needs a list, not {describe_type(items)}")
    texts = cast("list[str]", items)
    evaluation.spend_pass(texts)
    evaluation.reserve(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _make_list_search(function: Callable[..., int]) -> Function:
    """Return a search in a list. It compares nested values, and the error of a failed search contains its argument."""

    def call(evaluation: Evaluation, items: list[Any], *args: Any) -> int:
        evaluation.spend_deep(items)
        for arg in args:
            evaluation.spend_deep(arg)
        return function(items, *args)

    return call


def _get(evaluation: Evaluation, value: dict[str, Any], key: Any, default: Any = None) -> Any:
    return value.get(key, default)


def _values(evaluation: Evaluation, value: dict[str, Any]) -> list[Any]:
    evaluation.spend_pass(value)
    return list(value.values())


def list_pairs(evaluation: Evaluation, value: dict[str, Any]) -> list[list[Any]]:
    """Return the pairs of keys and values of a map, each as a list."""
    evaluation.spend_steps(len(value))
    return [list(pair) for pair in value.items()]


def _copy_map(evaluation: Evaluation, value: dict[str, Any]) -> dict[str, Any]:
    evaluation.spend_steps(len(value))
    return value.copy()


_STRING: Final[dict[str, Function]] = {
    **{
        name: _make_linear(getattr(str, name))
        for name in (
            *("capitalize", "casefold", "count", "find", "index", "lower", "partition", "removeprefix"),
            *("removesuffix", "swapcase", "title", "upper"),
            *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower"),
            *("isnumeric", "isprintable", "isspace", "istitle", "isupper"),
        )
    },
    **{name: _make_strip(getattr(str, name)) for name in ("strip", "lstrip", "rstrip")},
    **{name: _make_affix_test(getattr(str, name)) for name in ("startswith", "endswith")},
    **{name: _make_right_search(getattr(str, name)) for name in ("rfind", "rindex", "rpartition")},
    **{name: _make_pad(getattr(str, name)) for name in ("center", "ljust", "rjust", "zfill")},
    "contains": contains,
    "expandtabs": _expand_tabs,
    "join": _join,
    "replace": _replace,
    "rsplit": _make_split(str.rsplit, from_the_right=True),
    "split": _make_split(str.split, from_the_right=False),
    "splitlines": _split_lines,
}
_LIST: Final[dict[str, Function]] = {
    "contains": contains,
    "copy": _make_linear(list[Any].copy),
    "count": _make_list_search(list[Any].count),
    "index": _make_list_search(list[Any].index),
}
_MAP: Final[dict[str, Function]] = {
    "copy": _copy_map,
    "get": _get,
    "items": list_pairs,
    "keys": _make_linear(list),
    "values": _values,
}
METHODS: Final[Mapping[type, Mapping[str, Function]]] = MappingProxyType({str: _STRING, list: _LIST, dict: _MAP})
METHOD_NAMES: Final = frozenset(name for table in METHODS.values() for name in table)


def call_method(evaluation: Evaluation, value: Any, name: str, args: list[Any]) -> Any:
    """Call a method of a value. Raises ExpressionError if its type has no such method, and the errors of the method."""
    method = METHODS.get(cast("Any", type(value)), {}).get(name)
    if method is None:
        raise ExpressionError(f"{describe_type(value)} has no method .{name}()")
    return method(evaluation, value, *args)
