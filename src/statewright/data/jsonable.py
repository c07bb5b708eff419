"""Conversion of values to JSON, with the same rules everywhere.

* Dataclasses and pydantic models become maps of their fields; other objects are converted by their method `to_dict`.
* Instants, durations, UUIDs, paths and enumerations are written as by pydantic, e.g. `2026-01-02T00:00:00Z`.
* Sets become lists, bytes become base64, exceptions become `Class: message`, and anything else becomes `str(value)`.
* NaN and infinities become the strings `NaN`, `Infinity` and `-Infinity`; null would not distinguish them.
* For display, a lone surrogate becomes U+FFFD, because text that contains a surrogate cannot be sent.

`as_json` refuses values that JSON cannot represent; `to_jsonable` converts them as far as possible, for display.
`to_strict_jsonable` is for data that a program reads back: it refuses a value rather than converting it to a string.
"""

from __future__ import annotations

import dataclasses
import json
import math
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, cast

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from statewright.data.encodable import encodable_text
from statewright.text import shorten

_REFUSALS: Final = (PydanticSerializationError, ValueError, TypeError, RecursionError)
_MAX_DEPTH: Final = 300
"""Maximum levels of nested containers. A deeper container becomes `...`, as does one that contains itself."""


def as_json(value: Any) -> Any:
    """Return a copy of a value, converted to JSON types.

    Raises ValueError for a value that JSON cannot represent completely, because it contains itself, is nested too
    deeply, or has a lone surrogate.
    """
    return from_json(to_json(value, fallback=_fallback, inf_nan_mode="strings", bytes_mode="base64"))


def to_jsonable(value: Any, simplify: Callable[[Any], Any] | None = None, *, depth: int = 0) -> Any:
    """Return any value, converted to JSON types for people to read.

    Unlike `as_json`, it sorts sets and never fails, but is slower. `simplify` converts the outermost level of a value
    whose type is not a JSON type; the default is `simplified`.
    """
    if isinstance(value, str):
        return encodable_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else from_json(to_json(value, inf_nan_mode="strings"))
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_convert_key(key): to_jsonable(item, simplify, depth=depth + 1) for key, item in items}
    if isinstance(value, list | tuple):
        return [to_jsonable(item, simplify, depth=depth + 1) for item in cast("list[Any]", value)]
    return to_jsonable((simplify or simplified)(value), simplify, depth=depth + 1)


def simplified(value: Any) -> Any:
    """Return a value whose type is not a JSON type, with its outermost level converted."""
    if isinstance(value, type | Iterator):  # reading an iterator would consume it
        return _text(cast("object", value))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, set | frozenset):
        return sorted(cast("set[Any]", value), key=repr)
    if isinstance(value, bytes | bytearray):
        return urlsafe_b64encode(value).decode()
    try:
        return to_jsonable_python(value, fallback=_fallback, inf_nan_mode="strings", bytes_mode="base64")
    except _REFUSALS:
        return _text(value)


def to_strict_jsonable(value: Any) -> Any:
    """Return a copy of a value, converted to JSON types. NaN and infinities become null; bytes are decoded as UTF-8.

    Raises ValueError for a value that JSON cannot represent.
    """
    try:
        return to_jsonable_python(value, inf_nan_mode="null")
    except _REFUSALS as error:
        raise ValueError(str(error)) from error


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in cast("dict[str, Any]", value).items()}
    return [copy_json(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


def quoted(value: Any, longest: int = 80) -> str:
    """Return a value as JSON text of at most `longest` characters, to be quoted in a message."""
    return shorten(json.dumps(to_jsonable(value), ensure_ascii=False), longest)


def _convert_key(key: Any) -> str:
    if isinstance(key, str):
        return encodable_text(key)
    try:
        return encodable_text(next(iter(to_jsonable_python({key: None}, fallback=_fallback, bytes_mode="base64"))))
    except _REFUSALS:
        return _text(key)


def _fallback(value: Any) -> Any:
    """Convert a value of a type that pydantic cannot serialize."""
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, type):
        with suppress(Exception):  # a user's method may raise anything
            return to_dict()
    return f"{type(value).__name__}: {_text(value)}" if isinstance(value, BaseException) else _text(value)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a user's __str__ may raise anything
        return f"<{type(value).__name__}>"
