"""The filters of lists and maps.

Each filter takes the rendering, the filtered value and the arguments, whose names are those of Jinja. A map stands for
its keys, as in Jinja. A string is rejected where a list is expected, because it is nearly always an answer that was not
parsed, and iterating over its characters would hide the mistake. `text | list` converts it explicitly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import STEP_COST, check_number
from statewright.workflow.states.expressions.functions import METHODS, list_pairs, sort_positions
from statewright.workflow.states.expressions.literal import key_to_string
from statewright.workflow.states.expressions.operators import describe_type
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Group, Missing, get_attribute, get_subscript, json_default

Reader = Callable[[Any], Any]
"""Returns an attribute of an item."""
Attribute = str | int | None
"""A path with dots, an index, or None for the item itself."""
LENGTH_LIMIT: Final = 1000
"""Maximum characters of a path."""
PARTS_LIMIT: Final = 100
"""Maximum parts of a path, or of several paths separated by commas."""


def make_attribute_reader(rendering: Rendering, attribute: Attribute) -> Reader:
    """Return a function that reads an attribute of an item, which may be Missing.

    Raises ExpressionError if the attribute is not valid.
    """
    if attribute is None:
        return lambda item: item
    if isinstance(attribute, int):
        missing = Missing(f"[{attribute}]")

        def read_index(item: Any) -> Any:
            rendering.step()
            return get_subscript(item, attribute, missing)

        return read_index
    names = _split(attribute, ".")
    cost, missing = STEP_COST * len(names), Missing(".".join(names))

    def read(item: Any) -> Any:
        rendering.spend(cost)
        for name in names:
            item = get_attribute(item, name, missing)
        return item

    return read


def _make_required_reader(rendering: Rendering, attribute: Attribute) -> Reader:
    """Return a reader of an attribute that every item must have."""
    read = make_attribute_reader(rendering, attribute)

    def read_required(item: Any) -> Any:
        part = read(item)
        if isinstance(part, Missing):
            raise ExpressionError(
                f"an item has no {str(attribute)!r}" if attribute is not None else "an item is missing"
            )
        return part

    return read_required


def _compute_sort_keys(rendering: Rendering, items: list[Any], attribute: Attribute, case_sensitive: bool) -> list[Any]:
    """Return the sort key of each item, which is one attribute, or a list of several that are separated by commas."""

    def fold(part: Any) -> Any:
        if case_sensitive or not isinstance(part, str):
            return part
        rendering.spend(len(part))
        return part.lower()

    if isinstance(attribute, str) and "," in attribute:
        paths = _split(attribute, ",")
        if sum(path.count(".") + 1 for path in paths) > PARTS_LIMIT:
            raise _make_length_error()
        readers = [_make_required_reader(rendering, path.strip()) for path in paths]
        return [[fold(read(item)) for read in readers] for item in items]
    read = _make_required_reader(rendering, attribute)
    return [fold(read(item)) for item in items]


def _split(attribute: object, separator: str) -> list[str]:
    if not isinstance(attribute, str):
        raise ExpressionError(f"an attribute is a string or a number, not {describe_type(attribute)}")
    if len(attribute) > LENGTH_LIMIT or attribute.count(separator) >= PARTS_LIMIT:
        raise _make_length_error()
    return attribute.split(separator)


def _make_length_error() -> ExpressionError:
    return ExpressionError(f"an attribute has at most {PARTS_LIMIT} parts and {LENGTH_LIMIT} characters")


# -- filters

Filter = Callable[..., Any]
_CANONICAL_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=json_default)


def read_items(rendering: Rendering, value: Any) -> list[Any]:
    """Return a list itself or the keys of a map, and pay for one step per item."""
    if not isinstance(value, list | dict):
        advice = ": `| list` converts it to a list of its characters" if isinstance(value, str) else ""
        raise ExpressionError(f"the filter needs a list or a map, not {describe_type(value)}{advice}")
    rendering.spend_steps(len(cast("list[Any]", value)))
    return cast("list[Any]", value) if isinstance(value, list) else list(cast("dict[str, Any]", value))


def _join(rendering: Rendering, value: Any, d: Any = "", attribute: Attribute = None) -> str:
    read = _make_required_reader(rendering, attribute)
    texts = [rendering.to_text(read(item)) for item in read_items(rendering, value)]
    return METHODS[str]["join"](rendering, rendering.to_text(d), texts)


def _make_end_filter(index: int) -> Filter:
    """Return the filter `first` or `last`, for the index 0 or -1."""

    def call(rendering: Rendering, value: Any) -> Any:
        if not isinstance(value, str | list | dict):
            raise ExpressionError(f"{describe_type(value)} has no items")
        items = cast("list[Any]", value)
        if isinstance(value, dict):
            rendering.spend_pass(cast("object", value))
            items = list(cast("dict[str, Any]", value))
        return items[index] if items else Missing("the first or last item of an empty value")

    return call


def _reverse(rendering: Rendering, value: Any) -> Any:
    if isinstance(value, str):
        rendering.spend(len(value))
        return value[::-1]
    return read_items(rendering, value)[::-1]


def _sort(
    rendering: Rendering,
    value: Any,
    reverse: bool = False,
    case_sensitive: bool = False,
    attribute: Attribute = None,
) -> list[Any]:
    items = read_items(rendering, value)
    keys = _compute_sort_keys(rendering, items, attribute, case_sensitive)
    return [items[position] for position in sort_positions(rendering, keys, reverse=bool(reverse))]


def _unique(rendering: Rendering, value: Any, case_sensitive: bool = False, attribute: Attribute = None) -> list[Any]:
    """Keep the first of equal items. As with `==`, 1, 1.0 and true are equal."""
    items = read_items(rendering, value)
    keys = _compute_sort_keys(rendering, items, attribute, case_sensitive)
    rendering.spend_deep(keys, times=2)
    seen: set[str] = set()
    result: list[Any] = []
    for key, item in zip(keys, items, strict=True):
        equality_key = _make_equality_key(key)
        if equality_key not in seen:
            seen.add(equality_key)
            result.append(item)
    return result


def _make_equality_key(value: Any) -> str:
    """Return the same string for equal values. Numbers are not hashed, because an attacker could make them collide."""
    if isinstance(value, str):
        return f'"{value}'
    if isinstance(value, int | float) or value is None:
        return str(_normalize_number(value))
    return _CANONICAL_ENCODER.encode(_normalize(value))


def _normalize(value: Any) -> Any:
    if isinstance(value, list):
        return [_normalize(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key_to_string(key): _normalize(item) for key, item in cast("dict[Any, Any]", value).items()}
    return _normalize_number(value)


def _normalize_number(value: Any) -> Any:
    """Return a whole number as an integer, whatever its type."""
    is_whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole else value


def _make_min_or_max(name: str) -> Filter:
    """Return the filter `min` or `max`."""

    def call(rendering: Rendering, value: Any, case_sensitive: bool = False, attribute: Attribute = None) -> Any:
        items = read_items(rendering, value)
        if not items:
            return Missing(f"the {name} of an empty list")
        keys = _compute_sort_keys(rendering, items, attribute, case_sensitive)
        rendering.spend_deep(keys)
        choose: Callable[..., Any] = min if name == "min" else max
        return items[choose(range(len(keys)), key=keys.__getitem__)]

    return call


def _sum(rendering: Rendering, value: Any, attribute: Attribute = None, start: Any = 0) -> Any:
    read = _make_required_reader(rendering, attribute)
    numbers = [start, *(read(item) for item in read_items(rendering, value))]
    if not all(isinstance(number, int | float) for number in numbers):
        raise ExpressionError("sum needs a list of numbers")
    rendering.spend_deep(numbers)
    return check_number(sum(numbers))


def _group_by(
    rendering: Rendering, value: Any, attribute: Attribute, default: Any = None, case_sensitive: bool = False
) -> list[Group]:
    read = make_attribute_reader(rendering, attribute)
    items = read_items(rendering, value)
    parts = [default if isinstance(part := read(item), Missing) else part for item in items]
    keys = _compute_sort_keys(rendering, parts, None, case_sensitive)
    order = sort_positions(rendering, keys)
    rendering.spend_deep(keys)
    groups: list[Group] = []
    last_key: Any = object()
    for position in order:
        if keys[position] != last_key:
            rendering.spend_steps(2)
            groups.append(Group([parts[position], []]))
            last_key = keys[position]
        groups[-1][1].append(items[position])
    return groups


def _batch(rendering: Rendering, value: Any, linecount: int, fill_with: Any = None) -> list[list[Any]]:
    items = read_items(rendering, value)
    if linecount < 1:
        raise ExpressionError("batch needs a linecount of at least 1")
    rendering.spend_steps(len(items) // linecount + 1)
    rows = [items[start : start + linecount] for start in range(0, len(items), linecount)]
    if fill_with is not None and rows:
        rendering.reserve(linecount)
        rows[-1] += [fill_with] * (linecount - len(rows[-1]))
    return rows


def _slice(rendering: Rendering, value: Any, slices: int, fill_with: Any = None) -> list[list[Any]]:
    items = read_items(rendering, value)
    if slices < 1:
        raise ExpressionError("slice needs at least 1 slice")
    rendering.reserve(slices)
    rendering.spend_steps(2 * slices)
    size, longer_count = divmod(len(items), slices)
    parts: list[list[Any]] = []
    start = 0
    for number in range(slices):
        stop = start + size + (number < longer_count)
        padding = [fill_with] if fill_with is not None and number >= longer_count else []
        parts.append(items[start:stop] + padding)
        start = stop
    return parts


def _list_map_pairs(rendering: Rendering, value: Any) -> list[list[Any]]:
    if not isinstance(value, dict):
        raise ExpressionError(f"the filter needs a map, not {describe_type(value)}")
    return list_pairs(rendering, cast("dict[str, Any]", value))


def _sort_map(
    rendering: Rendering, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[list[Any]]:
    if by not in ("key", "value"):
        raise ExpressionError("dictsort sorts by 'key' or by 'value'")
    return _sort(rendering, _list_map_pairs(rendering, value), reverse, case_sensitive, attribute=int(by == "value"))


LIST_FILTERS: Final[dict[str, Filter]] = {
    "batch": _batch,
    "dictsort": _sort_map,
    "first": _make_end_filter(0),
    "groupby": _group_by,
    "items": _list_map_pairs,
    "join": _join,
    "last": _make_end_filter(-1),
    "max": _make_min_or_max("max"),
    "min": _make_min_or_max("min"),
    "reverse": _reverse,
    "slice": _slice,
    "sort": _sort,
    "sum": _sum,
    "unique": _unique,
}
