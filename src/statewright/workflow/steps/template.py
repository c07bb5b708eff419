"""Texts with places for values of a run: `{{input.name}}` and `{{state.name}}`.

The rules are those of the function that Stevora documents, which is JavaScript: a name that is missing at the end of a
path is empty, a path that leads through something without names stays as it was written. Maps and lists print as JSON,
where JavaScript would print nothing of use. What is put in is not read again: a value cannot ask for other values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

_PLACE: Final = re.compile(r"\{\{([\w.]+)\}\}", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_MISSING: Final = object()
_NO_WAY: Final = object()
_SMALLEST_PLAIN, _LARGEST_PLAIN = 1e-6, 1e21
"""Between these JavaScript writes a number without an exponent."""


def render(template: str, workflow_input: Any, workflow_state: Any) -> str:
    """The text with its values. Paths that lead nowhere stay as they are."""
    roots = {"input": workflow_input, "state": workflow_state}

    def value(place: re.Match[str]) -> str:
        root, *path = place[1].split(".")
        found = _walked(roots[root], path) if root in roots else _NO_WAY
        return place[0] if found is _NO_WAY else text_of(found)

    return _PLACE.sub(value, template)


def _walked(value: Any, path: list[str]) -> Any:
    """What a path leads to: `_MISSING` if its last name is not there, `_NO_WAY` if it does not get that far."""
    for part in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(part, _MISSING)
        elif isinstance(value, list):
            value = _item(cast("list[Any]", value), part)
        else:
            return _NO_WAY
    return value


def _item(items: list[Any], part: str) -> Any:
    place = int(part) if _INDEX.fullmatch(part) else len(items)
    return items[place] if place < len(items) else _MISSING


def text_of(value: Any) -> str:
    """A value as it stands in a text: as JavaScript would write it, maps and lists as JSON."""
    if value is None or value is _MISSING:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return _number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    if _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN:
        return _shortened(format(Decimal(repr(value)), "f"))
    mantissa, _, exponent = repr(value).partition("e")
    return f"{_shortened(mantissa)}e{int(exponent):+d}"


def _shortened(text: str) -> str:
    """A decimal number without zeros at its end that say nothing."""
    return text.rstrip("0").rstrip(".") if "." in text else text
