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
API: Final = "/api/v1"
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Parameters = Sequence[tuple[str, str]]
"""The parameters of a query; a name may occur several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response of the service."""

    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    content: bytes = b""


def read_data(answer: Any) -> Any:
    """Return the data of an answer, without its envelope."""
    return answer["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, with the parser of its answer."""

    method: Method
    path: str
    read: Callable[[Any], T]
    """Parses the decoded JSON of an answer, including the envelope; called with None for an empty body."""
    params: Parameters = ()
    body: bytes | None = None
    repeatable: bool = False
    """True if the request may be sent again when the outcome of the first attempt is unknown."""
    patience: float = 0.0
    """Seconds that the service may wait before it answers."""
    as_operator: bool = False
    """True to send the token of the operator instead of the key of a workspace."""
    accepted: Sequence[int] = ()
    """Error statuses whose content is parsed like an answer."""
    is_text: bool = False
    """True if the response is plain text instead of JSON."""


def get(path: str, read: Callable[[Any], T], params: Mapping[str, Any] | None = None, **options: Any) -> Call[T]:
    """Return a request that only reads; `options` are further fields of the `Call`."""
    return Call(method="GET", path=path, read=read, params=parameters(params or {}), repeatable=True, **options)


def post(path: str, read: Callable[[Any], T], body: Mapping[str, Any] | None = None, **options: Any) -> Call[T]:
    """Return a request that creates or does something, and is not sent twice unless it is `repeatable`."""
    return Call(method="POST", path=path, read=read, body=None if body is None else encoded(body), **options)


def patch(path: str, read: Callable[[Any], T], body: Mapping[str, Any], **options: Any) -> Call[T]:
    """Return a request that changes the given fields only."""
    return Call(method="PATCH", path=path, read=read, body=encoded(body), **options)


def delete(path: str, read: Callable[[Any], T]) -> Call[T]:
    """Return a request that removes something."""
    return Call(method="DELETE", path=path, read=read)


def ignore_content(answer: Any) -> None:
    """Ignore an answer without content."""


def path_of(*parts: str) -> str:
    """Return a path of the API. Raises InvalidRequest for parts that would lead to another path."""
    for part in parts:
        if not part or part in (".", ".."):
            raise InvalidRequest(
                f"{part!r} is not a valid id or name. Use one that the service has returned, e.g. run.id."
            )
    return "/".join([API, *(quote(part, safe="") for part in parts)])


def parameters(values: Mapping[str, Any]) -> Parameters:
    """Return query parameters from values by name, without those that are None or empty."""
    return [(name, text) for name, value in values.items() for text in _texts(value)]


def _texts(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [value.isoformat() if isinstance(value, datetime) else str(value)]


def encoded(body: Mapping[str, Any]) -> bytes:
    """Encode a body as JSON. Raises InvalidRequest for values without a JSON form."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_jsonable).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request cannot be encoded as JSON: {error}.") from error


def _jsonable(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Mapping() | set() | frozenset():
            return dict(value) if isinstance(value, Mapping) else sorted(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
            if dump is not None:  # a model of pydantic
                return dump(mode="json")
            raise TypeError(f"{type(value).__name__} cannot be represented as JSON: {value!r:.80}")


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


def in_camel(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values under the API's camel-case names. Nested values belong to users, and are unchanged."""
    return {camel(name): value for name, value in values.items()}
