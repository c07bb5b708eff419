"""Text that can be encoded as UTF-8, and numbers that JSON can write.

A Python string may contain half of a surrogate pair: JSON permits one (`"\\ud83d"`), and models, tools and browsers
produce them when an emoji is cut in two. Such text cannot be sent, saved or printed, and a conversation that contains
it would fail in every later turn. So text is made encodable when it is received.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, cast


def encodable_text(text: str) -> str:
    """Return the text with its surrogate pairs joined, and each half of one replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encodable_json(value: Any) -> Any:
    """Return a JSON value whose texts and keys are encodable: the value itself if they are already."""
    if isinstance(value, str):
        return encodable_text(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)  # keys of parsed JSON are always text
        changed = {encodable_text(key): encodable_json(item) for key, item in fields.items()}
        return changed if changed != fields else fields
    return _each(value, encodable_json)


def finite_json(value: Any) -> Any:
    """Return a JSON value with None in place of NaN and infinities: the value itself if it has none."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        changed = {key: finite_json(item) for key, item in fields.items()}
        return changed if any(changed[key] is not item for key, item in fields.items()) else fields
    return _each(value, finite_json)


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a list of the converted items: the value itself if it is not a sequence, or if nothing has changed."""
    if not isinstance(value, list | tuple):
        return value
    items = cast("list[Any]", value)
    converted = [convert(item) for item in items]
    return converted if any(new is not old for new, old in zip(converted, items, strict=True)) else items
