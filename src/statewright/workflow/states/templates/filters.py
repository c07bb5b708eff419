"""The filters of templates: those of Jinja that make sense for plain values.

Each takes the rendering that pays for it, the value before the bar, and the arguments. It raises ExpressionError,
TypeError or ValueError for a value of the wrong kind. Values that are missing come only to `default`.

Left out are `random`, which is not deterministic; `attr`, `xmlattr`, `urlize` and the like, which are for objects and
pages; and everything about escaping but `escape` itself: texts are for models and tools, so nothing is escaped.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import quote

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.evaluation import checked_number, extent
from statewright.workflow.states.expressions.functions import FUNCTIONS, items_of, sorted_items
from statewright.workflow.states.expressions.methods import METHODS
from statewright.workflow.states.expressions.operators import describe_kind
from statewright.workflow.states.templates.conditions import TESTS
from statewright.workflow.states.templates.rendering import Rendering
from statewright.workflow.states.templates.values import Group, Missing, get_attribute

Filter = Callable[..., Any]
_INDENT_LIMIT: Final = 8
_FORMAT: Final = re.compile(r"%(?:%|[-+ 0#]?\d{0,2}(?:\.\d{1,2})?[sdifeEgGxXo])")
"""The conversions of `format`: widths and precisions of two digits at most."""
_WORD: Final = re.compile(r"\w+")
_WORD_BREAK: Final = re.compile(r"([-\s({\[<]+)")


# -- helpers


def _list(rendering: Rendering, value: Any) -> list[Any]:
    """The items of a list. A text is not a list of characters here: models answer with a text instead of a list."""
    if not isinstance(value, list):
        raise ExpressionError(f"it needs a list, not {describe_kind(value)}")
    rendering.spend_pass(cast("object", value))
    return cast("list[Any]", value)


def _part(item: Any, attribute: str | int) -> Any:
    """What an item has under a path such as `author.name`; Missing if it has nothing there."""
    value = item
    for name in str(attribute).split("."):
        value = get_attribute(value, name, Missing(str(attribute)))
    return value


def _existing_part(item: Any, attribute: str | int | None) -> Any:
    if attribute is None:
        return item
    part = _part(item, attribute)
    if isinstance(part, Missing):
        raise ExpressionError(f"an item has no {str(attribute)!r}")
    return part


def _sort_key(attribute: str | int | None, case_sensitive: bool) -> Callable[[Any], Any]:
    def folded(part: Any) -> Any:
        return part.lower() if isinstance(part, str) and not case_sensitive else part

    if isinstance(attribute, str) and "," in attribute:
        names = [name.strip() for name in attribute.split(",")]
        return lambda item: [folded(_existing_part(item, name)) for name in names]
    return lambda item: folded(_existing_part(item, attribute))


def _text_filter(function: Callable[[str], str]) -> Filter:
    """A filter on the text of any value, in proportion to its length."""

    def call(rendering: Rendering, value: Any) -> str:
        return function(rendering.text_of(value))

    return call


def _method(name: str) -> Filter:
    """A filter that is a method of texts, on the text of any value."""

    def call(rendering: Rendering, value: Any, *args: Any) -> Any:
        return METHODS[str][name](rendering, rendering.text_of(value), *args)

    return call


# -- of any value


def default(value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    """Return the value, or another one if it is missing; with `boolean`, also if it is empty or false."""
    return default_value if isinstance(value, Missing) or (boolean and not value) else value


def _to_json(rendering: Rendering, value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= _INDENT_LIMIT:
        raise ExpressionError(f"tojson indents by at most {_INDENT_LIMIT}")
    rendering.spend_deep(value)
    if indent is not None:  # each line is indented by its depth
        rendering.reserve(extent(value, rendering.value_limit) * (1 + indent * _depth(value)))
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    rendering.reserve(len(text))
    return text


def _depth(value: Any) -> int:
    """How deeply lists and maps are inside each other. The caller has paid for a pass over the whole value."""
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
    """Return the value: nothing is escaped, so nothing is safer than anything else."""
    return value


def _length(rendering: Rendering, value: Any) -> int:
    return cast("int", FUNCTIONS["len"](rendering, value))


# -- of numbers


def _int(rendering: Rendering, value: Any, default: int = 0, base: int = 10) -> int:
    rendering.spend_pass(value)
    try:
        if isinstance(value, str):
            return cast("int", checked_number(int(value, base)))
        return cast("int", checked_number(int(value)))
    except (TypeError, ValueError):
        pass
    try:
        return cast("int", checked_number(int(float(value))))
    except (TypeError, ValueError, OverflowError):
        return default


def _float(rendering: Rendering, value: Any, default: float = 0.0) -> float:
    rendering.spend_pass(value)
    try:
        return cast("float", checked_number(float(value)))
    except (TypeError, ValueError, OverflowError):
        return default


def _round(rendering: Rendering, value: Any, precision: int = 0, method: str = "common") -> Any:
    if method == "common":
        return FUNCTIONS["round"](rendering, value, precision)
    if not isinstance(value, int | float) or method not in ("ceil", "floor") or not 0 <= precision <= 20:
        raise ExpressionError("round needs a number, a precision up to 20, and common, ceil or floor")
    scaled = value * 10**precision
    whole = -(-scaled // 1) if method == "ceil" else scaled // 1
    return checked_number(float(whole / 10**precision))


# -- of texts


def _replace(rendering: Rendering, value: Any, old: str, new: str, count: int | None = None) -> str:
    return cast("str", _method("replace")(rendering, value, old, new, -1 if count is None else count))


def _trim(rendering: Rendering, value: Any, chars: str | None = None) -> str:
    return cast("str", _method("strip")(rendering, value, chars))


def _center(rendering: Rendering, value: Any, width: int = 80) -> str:
    return cast("str", _method("center")(rendering, value, width))


def _indent(rendering: Rendering, value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = rendering.text_of(value)
    size = len(width) if isinstance(width, str) else max(width, 0)
    lines = text.count("\n") + 1
    rendering.reserve(len(text) + lines * size)
    margin = width if isinstance(width, str) else " " * size
    head, *tail = text.split("\n")
    indented = [margin + line if line or blank else line for line in tail]
    return "\n".join([margin + head if first else head, *indented])


def _title(text: str) -> str:
    """Capitalise words as Jinja does: what follows a blank, a dash or an opening bracket begins one."""
    return "".join(part[:1].upper() + part[1:].lower() for part in _WORD_BREAK.split(text))


def _truncate(
    rendering: Rendering, value: Any, length: int = 255, killwords: bool = False, end: str = "...", leeway: int = 5
) -> str:
    text = rendering.text_of(value)
    if len(text) <= length + leeway:
        return text
    cut = text[: max(length - len(end), 0)]
    return (cut if killwords else cut.rsplit(" ", 1)[0]) + end


def _word_wrap(rendering: Rendering, value: Any, width: int = 79, break_long_words: bool = True) -> str:
    import textwrap

    text = rendering.text_of(value)
    if width < 1:
        raise ExpressionError("wordwrap needs a width of at least 1")
    longest = max(map(len, text.split()), default=0)
    rendering.reserve(2 * len(text))
    rendering.spend(longest * longest // width)  # what is left of a long word is copied for each line
    lines = [textwrap.wrap(line, width, break_long_words=break_long_words) or [""] for line in text.splitlines()]
    return "\n".join(part for line in lines for part in line)


def _word_count(rendering: Rendering, value: Any) -> int:
    return len(_WORD.findall(rendering.text_of(value)))


def _format(rendering: Rendering, value: Any, *args: Any) -> str:
    if not isinstance(value, str) or "%" in _FORMAT.sub("", value):
        raise ExpressionError("format needs a text with conversions such as %s, %d and %.2f, and no others")
    texts = [arg if isinstance(arg, int | float) else rendering.text_of(arg) for arg in args]
    rendering.reserve(len(value) + sum(len(text) if isinstance(text, str) else 100 for text in texts))
    return value % tuple(texts)


def _url_encode(rendering: Rendering, value: Any) -> str:
    return quote(rendering.text_of(value), safe="/")


# -- of lists and maps


def _join(rendering: Rendering, value: Any, d: str = "", attribute: str | int | None = None) -> str:
    texts = [rendering.text_of(_existing_part(item, attribute)) for item in _list(rendering, value)]
    return cast("str", METHODS[str]["join"](rendering, rendering.text_of(d), texts))


def _first(rendering: Rendering, value: Any) -> Any:
    items: Any = cast("Any", value) if isinstance(value, str | list) else items_of(rendering, value)
    return items[0] if items else Missing("the first item")


def _last(rendering: Rendering, value: Any) -> Any:
    items: Any = cast("Any", value) if isinstance(value, str | list) else items_of(rendering, value)
    return items[-1] if items else Missing("the last item")


def _reverse(rendering: Rendering, value: Any) -> Any:
    rendering.spend_pass(value)
    return value[::-1] if isinstance(value, str) else _list(rendering, value)[::-1]


def _sort(
    rendering: Rendering,
    value: Any,
    reverse: bool = False,
    case_sensitive: bool = False,
    attribute: str | int | None = None,
) -> list[Any]:
    direction = -1 if reverse else 1  # turned twice, so that equal items keep their order
    key = _sort_key(attribute, case_sensitive)
    return sorted_items(rendering, _list(rendering, value)[::direction], key)[::direction]


def _unique(
    rendering: Rendering, value: Any, case_sensitive: bool = False, attribute: str | int | None = None
) -> list[Any]:
    key = _sort_key(attribute, case_sensitive)
    rendering.spend_deep(value)
    seen: set[str] = set()
    unique: list[Any] = []
    for item in _list(rendering, value):
        identity = json.dumps(key(item), sort_keys=True, default=str)
        if identity not in seen:
            seen.add(identity)
            unique.append(item)
    return unique


def _extreme(name: str) -> Filter:
    def call(rendering: Rendering, value: Any, case_sensitive: bool = False, attribute: str | int | None = None) -> Any:
        items = _list(rendering, value)
        rendering.spend_deep(items)
        if not items:
            return Missing(f"the {name} of an empty list")
        choose: Callable[..., Any] = min if name == "min" else max
        return choose(items, key=_sort_key(attribute, case_sensitive))

    return call


def _sum(rendering: Rendering, value: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    numbers = [_existing_part(item, attribute) for item in _list(rendering, value)]
    if not all(isinstance(number, int | float) for number in (start, *numbers)):
        raise ExpressionError("sum needs a list of numbers")
    return checked_number(sum(numbers, start))


def _group_by(
    rendering: Rendering, value: Any, attribute: str | int, default: Any = None, case_sensitive: bool = False
) -> list[Group]:
    def key(item: Any) -> Any:
        part = _part(item, attribute)
        part = default if isinstance(part, Missing) else part
        return part.lower() if isinstance(part, str) and not case_sensitive else part

    groups: list[Group] = []
    last: Any = object()
    for item in sorted_items(rendering, _list(rendering, value), key):
        if (this := key(item)) != last:
            original = _part(item, attribute)
            groups.append(Group([default if isinstance(original, Missing) else original, []]))
            last = this
        groups[-1][1].append(item)
    return groups


def _batch(rendering: Rendering, value: Any, linecount: int, fill_with: Any = None) -> list[list[Any]]:
    items = _list(rendering, value)
    if linecount < 1:
        raise ExpressionError("batch needs a linecount of at least 1")
    rows = [items[start : start + linecount] for start in range(0, len(items), linecount)]
    if fill_with is not None and rows:
        rendering.reserve(linecount)
        rows[-1] += [fill_with] * (linecount - len(rows[-1]))
    return rows


def _slice(rendering: Rendering, value: Any, slices: int, fill_with: Any = None) -> list[list[Any]]:
    items = _list(rendering, value)
    if slices < 1:
        raise ExpressionError("slice needs at least 1 slice")
    rendering.reserve(slices)
    size, longer = divmod(len(items), slices)
    parts: list[list[Any]] = []
    start = 0
    for number in range(slices):
        stop = start + size + (number < longer)
        filled = [fill_with] if fill_with is not None and number >= longer else []
        parts.append(items[start:stop] + filled)
        start = stop
    return parts


def _map_items(rendering: Rendering, value: Any) -> list[list[Any]]:
    if not isinstance(value, dict):
        raise ExpressionError(f"it needs a map, not {describe_kind(value)}")
    rendering.spend_pass(cast("object", value))
    return [list(pair) for pair in cast("dict[str, Any]", value).items()]


def _sort_map(
    rendering: Rendering, value: Any, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[list[Any]]:
    if by not in ("key", "value"):
        raise ExpressionError("dictsort sorts by 'key' or by 'value'")
    return _sort(rendering, _map_items(rendering, value), reverse, case_sensitive, attribute=int(by == "value"))


# -- of a filter or test for each item


def _map(rendering: Rendering, value: Any, name: str | None = None, *args: Any, **named: Any) -> list[Any]:
    items = _list(rendering, value)
    if name is None:
        attribute = named.pop("attribute", None)
        if attribute is None or named.keys() - {"default"}:
            raise ExpressionError("map needs the name of a filter, or attribute='...'")
        if "default" in named:
            return [default(_part(item, attribute), named["default"]) for item in items]
        return [_existing_part(item, attribute) for item in items]
    if name == "map" or name not in FILTERS:
        raise ExpressionError(f"there is no filter {str(name)[:40]!r}")
    return [apply_filter(rendering, name, item, args, named) for item in items]


def _selecting(keeps: bool, by_attribute: bool) -> Filter:
    """`select`, `reject`, `selectattr` and `rejectattr`: keep the items that pass a test, or those that do not."""

    def call(rendering: Rendering, value: Any, *args: Any) -> list[Any]:
        attribute, args = (args[0], args[1:]) if by_attribute else (None, args)
        name, *rest = args or ("truthy",)
        if name not in TESTS:
            raise ExpressionError(f"there is no test {str(name)[:40]!r}")
        kept: list[Any] = []
        for item in _list(rendering, value):
            rendering.step()
            subject = _part(item, attribute) if attribute is not None else item
            if bool(TESTS[name](rendering, subject, *rest)) is keeps:
                kept.append(item)
        return kept

    return call


FILTERS: Final[Mapping[str, Filter]] = MappingProxyType(
    {
        "abs": FUNCTIONS["abs"],
        "batch": _batch,
        "capitalize": _text_filter(str.capitalize),
        "center": _center,
        "count": _length,
        "dictsort": _sort_map,
        "e": _text_filter(html.escape),
        "escape": _text_filter(html.escape),
        "first": _first,
        "float": _float,
        "format": _format,
        "groupby": _group_by,
        "indent": _indent,
        "int": _int,
        "items": _map_items,
        "join": _join,
        "last": _last,
        "length": _length,
        "list": items_of,
        "lower": _text_filter(str.lower),
        "map": _map,
        "max": _extreme("max"),
        "min": _extreme("min"),
        "reject": _selecting(keeps=False, by_attribute=False),
        "rejectattr": _selecting(keeps=False, by_attribute=True),
        "replace": _replace,
        "reverse": _reverse,
        "round": _round,
        "safe": _safe,
        "select": _selecting(keeps=True, by_attribute=False),
        "selectattr": _selecting(keeps=True, by_attribute=True),
        "slice": _slice,
        "sort": _sort,
        "string": _text_filter(str),
        "sum": _sum,
        "title": _text_filter(_title),
        "tojson": _to_json,
        "trim": _trim,
        "truncate": _truncate,
        "unique": _unique,
        "upper": _text_filter(str.upper),
        "urlencode": _url_encode,
        "wordcount": _word_count,
        "wordwrap": _word_wrap,
    }
)
"""By name. `default`, alias `d`, is not among them: it alone takes a value that is missing."""
DEFAULT_NAMES: Final = ("default", "d")
FILTER_NAMES: Final = (*FILTERS, *DEFAULT_NAMES)


def apply_filter(
    rendering: Rendering, name: str, value: Any, args: tuple[Any, ...] | list[Any], named: Mapping[str, Any]
) -> Any:
    """Return what a filter makes of a value; a missing value stays missing, but for `default`.

    `name` is one of `FILTER_NAMES`. Raises ExpressionError, and what Python raises for wrong arguments.
    """
    rendering.step()
    if name in DEFAULT_NAMES:
        return default(value, *args, **named)
    if isinstance(value, Missing):
        return value
    return FILTERS[name](rendering, value, *args, **named)
