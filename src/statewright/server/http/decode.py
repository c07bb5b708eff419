"""Strict decoding of request bodies.

Non-finite numbers, duplicate names in an object, strings that databases cannot store (NUL, lone surrogates), integers
with hundreds of digits and deeply nested containers are rejected here, so that no other code has to handle them.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final, NoReturn

from pydantic_core import from_json

from statewright.errors import InvalidRequest

MAX_DEPTH: Final = 100
"""The maximum depth of nested containers."""
_MAX_DIGITS: Final = 100
"""The maximum number of digits of an integer."""


def decode(body: bytes) -> Any:
    """Decode a request body as JSON. Raises InvalidRequest with the reason."""
    # The body is parsed twice, because pydantic's parser rejects invalid UTF-8, lone surrogates and extreme depth, but
    # only the standard library's parser has hooks for duplicate names and large numbers.
    try:
        from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    value = _decode_strictly(body)
    # The remaining checks walk the value, so they are skipped if the body cannot contain the problem.
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH:
        _check_depth(value)
    if b"\\u0000" in body:
        check_no_nul(value)
    return value


def _decode_strictly(body: bytes) -> Any:
    try:
        return json.loads(
            body,
            object_pairs_hook=_build_object,
            parse_int=_parse_int,
            parse_float=_parse_float,
            parse_constant=_reject_constant,
        )
    except RecursionError as error:
        raise _too_deep_error() from error


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"The body has an object in which {duplicate!r} appears twice. Send each name once.")
    return value


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise InvalidRequest(
            f"The body has a number with {len(digits)} digits. Send numbers of more than {_MAX_DIGITS} digits as "
            f"strings."
        )
    return int(digits)


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise InvalidRequest(f"The body has the number {digits[:40]}, which is too large. Send it as a string.")
    return number


def _reject_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body has {name}, which is not valid JSON. Send null or a string.")


def _too_deep_error() -> InvalidRequest:
    return InvalidRequest(f"The body nests objects or arrays more than {MAX_DEPTH} levels deep. Flatten it.")


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep_error()


def check_no_nul(value: Any) -> None:
    """Raise InvalidRequest if a string or a key, at any depth, contains a NUL character."""
    if isinstance(value, str):
        if "\0" in value:
            raise InvalidRequest("The body has a string with a NUL character (\\u0000). Remove the character.")
        return
    if isinstance(value, dict):
        for name in value:  # pyright: ignore[reportUnknownVariableType]
            check_no_nul(name)
    for child in _children(value):
        check_no_nul(child)


def _children(value: Any) -> list[Any]:
    """Return the values directly inside a container; an empty list for any other value."""
    if isinstance(value, dict):
        return list(value.values())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
