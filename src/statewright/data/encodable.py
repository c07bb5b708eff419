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
    return map_texts(value, encodable_text)


def map_texts(value: Any, convert: Callable[[str], str]) -> Any:
    """Return a JSON value with all texts and keys converted: the value itself if none of them changes."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)  # keys of parsed JSON are always text
        changed = {convert(key): map_texts(item, convert) for key, item in fields.items()}
        return changed if changed != fields else fields
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return _changed(items, [map_texts(item, convert) for item in items])
    return value


def finite_json(value: Any) -> Any:
    """Return a JSON value with None in place of NaN and infinities: the value itself if it has none."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        changed = {key: finite_json(item) for key, item in fields.items()}
        return changed if any(changed[key] is not item for key, item in fields.items()) else fields
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return _changed(items, [finite_json(item) for item in items])
    return value


def _changed(items: list[Any], converted: list[Any]) -> list[Any]:
    return converted if any(new is not old for new, old in zip(converted, items, strict=True)) else items
