"""Encoding of responses as JSON. Stored user data must not make a request fail, so every value has some JSON form.

NaN and infinities become null, bytes become base64, and other values without a JSON form become `str(value)`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_json, to_jsonable_python
from starlette.responses import Response

_MAX_DEPTH: Final = 300
"""The maximum depth of nested containers in a response, well within Python's recursion limit."""
_MAX_BITS: Final = 14_000
"""Integers with more bits are described in words, because Python refuses to convert more than 4 300 digits to text."""


def encode(value: Any) -> bytes:
    """Encode a value as one line of JSON."""
    try:
        return to_json(value, inf_nan_mode="null", bytes_mode="base64", fallback=_to_text)
    except Exception:
        # The fast encoder rejects invalid Unicode, some non-string keys and deep nesting, and a computed field of a
        # user's model may raise anything.
        return json.dumps(_to_jsonable(value, 0), ensure_ascii=True).encode("ascii")


def _to_jsonable(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {_to_key(key): _to_jsonable(item, depth + 1) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_to_jsonable(item, depth + 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, str | int) or value is None:  # not a float, which may be NaN
        return value
    try:
        return to_jsonable_python(value, inf_nan_mode="null", bytes_mode="base64", fallback=_to_text)
    except Exception:
        return _to_text(value)


def _to_key(key: object) -> str:
    """Convert a key to the string that the fast encoder would write."""
    if isinstance(key, str):
        return key
    try:
        return next(iter(to_jsonable_python({key: None}, bytes_mode="base64", fallback=_to_text)))
    except Exception:
        return _to_text(key)


def _to_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # a user's __str__ may raise anything
        return f"<{type(value).__name__}>"


class JsonResponse(Response):
    """A JSON response, encoded by `encode` instead of the framework."""

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(encode(content), status, headers)


def success_response(data: Any, *, status: int = 200, meta: Mapping[str, Any] | None = None) -> JsonResponse:
    """Return a successful response in the standard envelope."""
    content = {"success": True, "data": data}
    return JsonResponse(content if meta is None else {**content, "meta": meta}, status)


def error_response(
    status: int,
    code: str,
    message: str,
    details: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> JsonResponse:
    """Return an error response in the standard envelope."""
    error = {"code": code, "message": message, "details": details}
    return JsonResponse({"success": False, "error": error}, status, headers)
