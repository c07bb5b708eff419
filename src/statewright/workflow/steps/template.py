"""Templates such as `{{input.name}}` and conditions such as `lead.score`: paths into the input and state of a run.

Both follow the rules of JavaScript, because such workflows were first written for JavaScript. If the last key of a path
is missing, its placeholder renders as an empty string. If the path leads through a missing key or a scalar, the
placeholder is left as written. Maps and lists render as JSON; JavaScript would print `[object Object]`. Inserted values
are not parsed again, so placeholders in values have no effect.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

_PLACEHOLDER: Final = re.compile(r"\{\{([\w.]+)\}\}", re.ASCII)
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_MISSING: Final = object()
_BROKEN_PATH: Final = object()
_MIN_WITHOUT_EXPONENT, _MAX_WITHOUT_EXPONENT = 1e-6, 1e21
"""The range of numbers that JavaScript writes without an exponent."""


def render(template: str, workflow_input: Any, workflow_state: Any) -> str:
    """Replace the placeholders of a template with values. Placeholders with an invalid path are left as written."""
    roots = {"input": workflow_input, "state": workflow_state}

    def replace(match: re.Match[str]) -> str:
        root, *path = match[1].split(".")
        value = _follow_path(roots[root], path) if root in roots else _BROKEN_PATH
        return match[0] if value is _BROKEN_PATH else to_text(value)

    return _PLACEHOLDER.sub(replace, template)


def is_expression_true(expression: str, state: Mapping[str, Any]) -> bool:
    """Return whether the value at a path in the state is truthy. A missing value is falsy."""
    value = _follow_path(state, expression.strip().split("."))
    return value is not _MISSING and value is not _BROKEN_PATH and is_true(value)


def is_true(value: Any) -> bool:
    """Return whether a value is truthy in JavaScript: not null, false, 0, NaN or "". An empty list is truthy."""
    return value == value and value not in (None, False, 0, "")  # NaN is not equal to itself


def _follow_path(value: Any, path: list[str]) -> Any:
    """Return the value at a path.

    Returns `_MISSING` if only the last key is missing, and `_BROKEN_PATH` if the path does not lead to its last key.
    """
    for part in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(part, _MISSING)
        elif isinstance(value, list):
            value = _get_item(cast("list[Any]", value), part)
        else:
            return _BROKEN_PATH
    return value


def _get_item(items: list[Any], part: str) -> Any:
    index = int(part) if _INDEX.fullmatch(part) else len(items)
    return items[index] if index < len(items) else _MISSING


def to_text(value: Any) -> str:
    """Format a value as JavaScript does, except that maps and lists are formatted as JSON."""
    if value is None or value is _MISSING:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return _format_number(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)


def _format_number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"  # also for -0.0
    if _MIN_WITHOUT_EXPONENT <= abs(value) < _MAX_WITHOUT_EXPONENT:
        return _strip_zeros(format(Decimal(repr(value)), "f"))
    mantissa, _, exponent = repr(value).partition("e")
    return f"{_strip_zeros(mantissa)}e{int(exponent):+d}"


def _strip_zeros(text: str) -> str:
    """Remove the trailing zeros of a decimal number."""
    return text.rstrip("0").rstrip(".") if "." in text else text
