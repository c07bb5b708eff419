"""Strict decoding of request bodies.

Numbers that are not finite, duplicate names in an object, strings that databases cannot store (NUL, lone surrogates),
numbers with hundreds of digits and deeply nested containers are refused here, so no other code has to handle them."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, NoReturn

from pydantic_core import from_json

from statewright.errors import InvalidRequest

MAX_DEPTH: Final = 100
"""The largest depth of nested containers."""
_MAX_DIGITS: Final = 100
"""The largest number of digits of an integer."""


def decode(body: bytes) -> Any:
    """Decode a body. Raises InvalidRequest with the reason."""
    try:
        from_json(body, allow_inf_nan=False)  # refuses invalid JSON, UTF-8 and Unicode, and extreme depth
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    value = _decode_strictly(body)
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if b"\\u0000" in body:
        check_text(value)
    return value


def _decode_strictly(body: bytes) -> Any:
    try:
        return json.loads(
            body,
            object_pairs_hook=_build_object,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_refuse_constant,
        )
    except RecursionError as error:
        raise _too_deep() from error


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"The body has an object with {duplicate!r} twice. Send each name once.")
    return value


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InvalidRequest(
            f"The body has a number of {len(digits)} digits. Send numbers above {_MAX_DIGITS} digits as strings."
        )
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise InvalidRequest(f"The body has the number {digits[:40]}, which is too large. Send it as a string.")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body has {name}, which is not valid JSON. Send null or a string.")


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"The body nests containers more than {MAX_DEPTH} levels deep. Make it flatter.")


def _check_depth(value: Any) -> None:
    layer = [value]
    for _ in range(MAX_DEPTH):
        layer = [part for item in layer for part in _parts(item)]
        if not layer:
            return
    if any(isinstance(item, dict | list) for item in layer):
        raise _too_deep()


def check_text(value: Any) -> None:
    """Raise InvalidRequest if a string or a key, at any depth, contains a NUL character."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidRequest("The body has a string with the character NUL (\\u0000). Remove it.")
        return
    if isinstance(value, dict):
        for name in value:  # pyright: ignore[reportUnknownVariableType]
            check_text(name)
    for part in _parts(value):
        check_text(part)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
