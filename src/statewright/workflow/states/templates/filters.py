"""How values become text in a template, and the filters that may follow a bar.

A filter raises ExpressionError, TypeError or ValueError for a value that is none of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from statewright.errors import ExpressionError
from statewright.workflow.states.expressions.budget import extent
from statewright.workflow.states.items import MISSING, follow, read_path

OUTPUT_LIMIT: Final = 1_000_000
"""Characters of a text that filters and blocks make."""


_JSON: Final = json.JSONEncoder(ensure_ascii=False, default=str)


def as_words(value: Any) -> str:
    """A value as it stands in a rendered text: texts plain, everything else as JSON writes it."""
    return value if isinstance(value, str) else _JSON.encode(value)


def _join(value: Any, separator: str = "", attribute: str | None = None) -> str:
    words = [as_words(_part(item, attribute)) for item in _list_of(value)]
    total = sum(map(len, words)) + len(separator) * len(words)
    if total > OUTPUT_LIMIT:
        raise ExpressionError(f"join would make more than {OUTPUT_LIMIT} characters")
    return separator.join(words)


def _sort(value: Any, reverse: bool = False, case_sensitive: bool = False, attribute: str | None = None) -> list[Any]:
    def key(item: Any) -> Any:
        part = _part(item, attribute)
        return part.lower() if isinstance(part, str) and not case_sensitive else part

    return sorted(_list_of(value), key=key, reverse=bool(reverse))


def _part(item: Any, attribute: str | None) -> Any:
    if attribute is None:
        return item
    part = follow(item, read_path(attribute) or ())
    if part is MISSING:
        raise ExpressionError(f"an item has no {attribute!r}")
    return part


def _list_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ExpressionError("the filter is for lists")
    return cast(list[Any], value)


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise ExpressionError("length is for texts, lists and maps")
    return len(cast(list[Any], value))


def _to_json(value: Any, indent: int | None = None) -> str:
    if indent is not None and not 0 <= indent <= 8:
        raise ExpressionError("tojson is indented by at most 8")
    if extent(value, OUTPUT_LIMIT) > OUTPUT_LIMIT:
        raise ExpressionError(f"tojson would make more than {OUTPUT_LIMIT} characters")
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _safe(value: Any) -> Any:
    """Nothing is escaped here, so nothing is safer than anything else."""
    return value


def _upper(value: Any) -> str:
    return as_words(value).upper()


def _lower(value: Any) -> str:
    return as_words(value).lower()


def _trim(value: Any) -> str:
    return as_words(value).strip()


FILTERS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "join": _join,
        "length": _length,
        "upper": _upper,
        "lower": _lower,
        "trim": _trim,
        "tojson": _to_json,
        "safe": _safe,
        "sort": _sort,
    }
)
"""All but `default`, which alone has to do with values that are not there."""
