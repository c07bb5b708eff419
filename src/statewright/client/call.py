"""Requests as data, independent of how they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote

from statewright.api.resource import camel
from statewright.errors import InvalidRequest

T = TypeVar("T")
API_PREFIX: Final = "/api/v1"
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Parameters = Sequence[tuple[str, str]]
"""Query parameters as pairs of name and value. A name may occur several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response of the service."""

    status: int
    headers: Mapping[str, str]
    """Headers by lower-case name."""
    content: bytes = b""


def read_data(answer: Any) -> Any:
    """Return the data in the envelope of an answer."""
    return answer["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and the function that parses its answer."""

    method: Method
    path: str
    read: Callable[[Any], T]
    """Parses an answer, given as decoded JSON with its envelope, or as None if the response has no content."""
    params: Parameters = ()
    body: bytes | None = None
    repeatable: bool = False
    """True if the request may be sent again when the outcome of the first attempt is unknown."""
    max_wait: float = 0.0
    """Seconds for which the service may wait before it answers. They are added to the timeout."""
    as_operator: bool = False
    """True to send the admin token instead of the key of a workspace."""
    accepted: Sequence[int] = ()
    """Error statuses of responses that are parsed like a success."""
    is_text: bool = False
    """True if the response is plain text instead of JSON."""


def get(path: str, read: Callable[[Any], T], params: Mapping[str, Any] | None = None, **options: Any) -> Call[T]:
    """Return a request that only reads. `options` sets further fields of `Call`."""
    return Call(method="GET", path=path, read=read, params=query_params(params or {}), repeatable=True, **options)


def post(path: str, read: Callable[[Any], T], body: Mapping[str, Any] | None = None, **options: Any) -> Call[T]:
    """Return a request that has an effect. It is sent again after a failure only if it is `repeatable`."""
    return Call(method="POST", path=path, read=read, body=None if body is None else encode_json(body), **options)


def patch(path: str, read: Callable[[Any], T], body: Mapping[str, Any], **options: Any) -> Call[T]:
    """Return a request that changes only the fields in `body`."""
    return Call(method="PATCH", path=path, read=read, body=encode_json(body), **options)


def put(path: str, read: Callable[[Any], T], body: Mapping[str, Any], **options: Any) -> Call[T]:
    """Return a request that replaces a resource. It may be sent again, because the second one changes nothing."""
    return Call(method="PUT", path=path, read=read, body=encode_json(body), repeatable=True, **options)


def delete(path: str, read: Callable[[Any], T], **options: Any) -> Call[T]:
    """Return a request that removes a resource."""
    return Call(method="DELETE", path=path, read=read, **options)


def ignore_content(answer: Any) -> None:
    """Parse the answer of a request that returns nothing."""


def api_path(*parts: str) -> str:
    """Return the path of an API resource. Raises InvalidRequest for a part that would change the rest of the path."""
    for part in parts:
        if not part or part in (".", ".."):
            raise InvalidRequest(
                f"{part!r} is not a valid id or name. Use one that the service has returned, e.g. run.id."
            )
    return "/".join([API_PREFIX, *(quote(part, safe="") for part in parts)])


def query_params(values: Mapping[str, Any]) -> Parameters:
    """Return values as query parameters, without None and empty lists."""
    return [(name, text) for name, value in values.items() for text in _format_param(value)]


def _format_param(value: Any) -> Sequence[str]:
    """Return a value as strings: one for each item of a list, none for None, and one for any other value."""
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return [text for item in value for text in _format_param(item)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [value.isoformat() if isinstance(value, datetime) else str(value)]


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a body as JSON. Raises InvalidRequest for a value that JSON cannot represent."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_json_default).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request cannot be encoded as JSON: {error}.") from error


def _json_default(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Mapping():
            return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case set() | frozenset():
            return sorted(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
            if dump is not None:  # a pydantic model
                return dump(mode="json")
            raise TypeError(f"{type(value).__name__} cannot be represented as JSON: {value!r:.80}")


def to_camel_case(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under the camel-case names of the API. Names inside the values are not changed."""
    return {camel(name): value for name, value in values.items()}
