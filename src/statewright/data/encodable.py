"""Repair of text that UTF-8 cannot encode, and of numbers that JSON cannot represent.

A Python string may contain a lone surrogate: JSON permits an escape such as `"\\ud83d"`, and models, tools and browsers
produce one when they cut an emoji in two. Such text cannot be sent, saved or printed, and a conversation that contains
it would fail in every later turn. So text is repaired when it is received.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, cast


def encodable_text(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encodable_json(value: Any) -> Any:
    """Return a JSON value with encodable strings and keys; the same object if nothing changes."""
    return map_texts(value, encodable_text)


def map_texts(value: Any, convert: Callable[[str], str]) -> Any:
    """Return a JSON value with all strings and keys converted; the same object if nothing changes."""
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)  # the keys of parsed JSON are always strings
        converted = {convert(key): map_texts(item, convert) for key, item in fields.items()}
        return converted if converted != fields else fields
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return _keep_if_unchanged(items, [map_texts(item, convert) for item in items])
    return value


def finite_json(value: Any) -> Any:
    """Return a JSON value with NaN and infinities replaced by None; the same object if nothing changes."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        converted = {key: finite_json(item) for key, item in fields.items()}
        return converted if any(converted[key] is not item for key, item in fields.items()) else fields
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return _keep_if_unchanged(items, [finite_json(item) for item in items])
    return value


def _keep_if_unchanged(items: list[Any], converted: list[Any]) -> list[Any]:
    return converted if any(new is not old for new, old in zip(converted, items, strict=True)) else items
