"""The filters of templates: those of Jinja that make sense for plain values.

Each filter takes the rendering, the filtered value and the arguments, and pays for its work as
`expressions/evaluation.py` describes. It raises ExpressionError, TypeError or ValueError for a value of the wrong type.
Only `default` receives missing values.

Not supported are `random`, which is not deterministic, and filters for objects and web pages such as `attr`, `xmlattr`
and `urlize`. Nothing is escaped automatically, because the text is for models and tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import check_number, check_operand
from statewright.workflow.states.expressions.functions import FUNCTIONS, list_items
from statewright.workflow.states.templates.list_filters import LIST_FILTERS, make_attribute_reader, read_items
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.tests import TESTS
from statewright.workflow.states.templates.text_filters import TEXT_FILTERS
from statewright.workflow.states.templates.values import Missing, json_default

Filter = Callable[..., Any]
_INDENT_LIMIT: Final = 8
"""Maximum spaces by which `tojson` indents."""


# -- any value


def default(value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    """Return the value, or `default_value` if it is missing or, with `boolean`, if it is empty or false."""
    return default_value if isinstance(value, Missing) or (boolean and not value) else value


def _to_json(rendering: Rendering, value: Any, indent: int | None = None) -> str:
    """Write a value as JSON. Keys keep their order, and no character is escaped for web pages."""
    if indent is None:
        rendering.spend_deep(value)
        text = json.dumps(value, ensure_ascii=False, default=json_default)
        rendering.reserve(len(text))
        return text
    if not 0 <= indent <= _INDENT_LIMIT:
        raise ExpressionError(f"tojson needs an indent from 0 to {_INDENT_LIMIT}")
    rendering.spend_deep(value)
    # Each piece passes through the generators of all lists and maps around it.
    steps, size = 1 + _depth(value) // 4, 0
    pieces: list[str] = []
    for piece in json.JSONEncoder(ensure_ascii=False, default=json_default, indent=indent).iterencode(value):
        size += len(piece)
        rendering.check_size(size)
        rendering.spend(len(piece))
        rendering.spend_steps(steps)
        pieces.append(piece)
    return "".join(pieces)


def _depth(value: Any) -> int:
    """Return the number of levels of lists and maps. The caller has paid for a pass over the whole value."""
    depth = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast("dict[str, Any]", item).values()
            elif isinstance(item, list):
                inner += cast("list[Any]", item)
        depth, level = depth + 1, inner
    return depth


def _safe(rendering: Rendering, value: Any) -> Any:
    return value  # nothing is escaped


# -- numbers


def _int(rendering: Rendering, value: Any, default: int = 0, base: int = 10) -> int:
    rendering.spend_pass(value)
    with suppress(TypeError, ValueError):
        return check_number(int(value, base) if isinstance(value, str) else int(value))
    try:
        return check_number(int(float(value)))
    except (TypeError, ValueError, OverflowError):
        return default


def _float(rendering: Rendering, value: Any, default: float = 0.0) -> float:
    rendering.spend_pass(value)
    try:
        return check_number(float(value))
    except (TypeError, ValueError, OverflowError):
        return default


def _round(rendering: Rendering, value: Any, precision: int = 0, method: str = "common") -> Any:
    if method == "common":
        return FUNCTIONS["round"](rendering, value, precision)
    if not isinstance(value, int | float) or method not in ("ceil", "floor") or not 0 <= precision <= 20:
        raise ExpressionError("round needs a number, a precision from 0 to 20, and the method common, ceil or floor")
    scaled = check_operand(value) * 10**precision
    whole = -(-scaled // 1) if method == "ceil" else scaled // 1
    return check_number(float(whole / 10**precision))


# -- a filter or test for each item


def _map(rendering: Rendering, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Apply a filter to each item, or read an attribute of each item, whose value may be missing."""
    items = read_items(rendering, value)
    if not args:
        attribute = kwargs.pop("attribute", None)
        if attribute is None or kwargs.keys() - {"default"}:
            raise ExpressionError("map needs the name of a filter, or attribute='...'")
        read = make_attribute_reader(rendering, attribute)
        if "default" in kwargs:
            return [default(read(item), kwargs["default"]) for item in items]
        return [read(item) for item in items]
    name, *others = args
    if name == "map" or name not in FILTER_NAMES:
        raise ExpressionError(f"the filter {str(name)[:40]!r} does not exist")
    return [apply_filter(rendering, name, item, others, kwargs) for item in items]


def _make_select_filter(keeps_matches: bool, by_attribute: bool) -> Filter:
    """Return a filter that keeps the items that pass a test or, if `keeps_matches` is False, the items that fail it.

    With `by_attribute`, the test is applied to an attribute of each item.
    """

    def call(rendering: Rendering, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
        attribute, args = (args[0], args[1:]) if by_attribute else (None, args)
        name, *others = args or ("truthy",)
        if name not in TESTS:
            raise ExpressionError(f"the test {str(name)[:40]!r} does not exist")
        read, test = make_attribute_reader(rendering, attribute), TESTS[name]
        items = read_items(rendering, value)
        return [item for item in items if bool(test(rendering, read(item), *others, **kwargs)) is keeps_matches]

    return call


FILTERS: Final[Mapping[str, Filter]] = MappingProxyType(
    {
        **LIST_FILTERS,
        **TEXT_FILTERS,
        **dict.fromkeys(("count", "length"), FUNCTIONS["len"]),
        "abs": FUNCTIONS["abs"],
        "float": _float,
        "int": _int,
        "list": list_items,
        "map": _map,
        "reject": _make_select_filter(keeps_matches=False, by_attribute=False),
        "rejectattr": _make_select_filter(keeps_matches=False, by_attribute=True),
        "round": _round,
        "safe": _safe,
        "select": _make_select_filter(keeps_matches=True, by_attribute=False),
        "selectattr": _make_select_filter(keeps_matches=True, by_attribute=True),
        "tojson": _to_json,
    }
)
"""All filters except `default` and its alias `d`, by name."""
DEFAULT_NAMES: Final = ("default", "d")
FILTER_NAMES: Final = (*FILTERS, *DEFAULT_NAMES)


def apply_filter(
    rendering: Rendering, name: str, value: Any, args: tuple[Any, ...] | list[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Apply a filter to a value. A missing value stays missing, except with `default`.

    `name` is one of `FILTER_NAMES`. Raises ExpressionError, or any error of Python for wrong arguments.
    """
    rendering.step()
    if name in DEFAULT_NAMES:
        return default(value, *args, **kwargs)
    if isinstance(value, Missing):
        return value
    return FILTERS[name](rendering, value, *args, **kwargs)
