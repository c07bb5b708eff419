"""Requests as data: what is asked of the service, whoever sends it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, Literal, TypeVar
from urllib.parse import quote

from statewright.errors import InvalidRequest

T = TypeVar("T")
API: Final = "/api/v1"
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Parameters = Sequence[tuple[str, str]]
"""Of the query: a name may come several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the service has answered."""

    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    content: bytes = b""


def as_told(answer: Any) -> Any:
    """The answer as it came, without its envelope."""
    return answer["data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, and how its answer is read."""

    method: Method
    path: str
    read: Callable[[Any], T]
    """What the JSON of an answer means, envelope included; None is read where there is no content."""
    params: Parameters = ()
    body: bytes | None = None
    repeatable: bool = False
    """Whether it may be sent again if nobody knows what became of it."""
    patience: float = 0.0
    """Seconds for which the service itself may wait before it answers."""
    as_operator: bool = False
    """Whether the token of the operator is sent, and not the key of a workspace."""
    accepted: Sequence[int] = ()
    """Statuses of errors that are answers all the same."""
    is_text: bool = False
    """Whether the answer is a text, and no JSON."""


def get(path: str, read: Callable[[Any], T], params: Mapping[str, Any] | None = None) -> Call[T]:
    """A request that only looks."""
    return Call(method="GET", path=path, read=read, params=parameters(params or {}), repeatable=True)


def post(path: str, read: Callable[[Any], T], body: Mapping[str, Any] | None = None) -> Call[T]:
    """A request that does something, and is not sent twice."""
    return Call(method="POST", path=path, read=read, body=None if body is None else encoded(body))


def patch(path: str, read: Callable[[Any], T], body: Mapping[str, Any]) -> Call[T]:
    """A request that changes what is given, and nothing else."""
    return Call(method="PATCH", path=path, read=read, body=encoded(body))


def delete(path: str, read: Callable[[Any], T]) -> Call[T]:
    """A request that removes something."""
    return Call(method="DELETE", path=path, read=read)


def nothing(answer: Any) -> None:
    """What is read where there is nothing to be read."""


def place(*parts: str) -> str:
    """A path of the API. Raises InvalidRequest for an empty part, which would lead to another place."""
    for part in parts:
        if not part or part in (".", ".."):
            raise InvalidRequest(f"{part!r} is no id or name. Give what the service has told, e.g. run.id.")
    return "/".join([API, *(quote(part, safe="") for part in parts)])


def parameters(values: Mapping[str, Any]) -> Parameters:
    """Parameters of a query from values by their names; what is None or empty is left away."""
    return [(name, text) for name, value in values.items() for text in _texts(value)]


def _texts(value: Any) -> Sequence[str]:
    if value is None:
        return ()
    if isinstance(value, list | tuple):
        return [text for one in value for text in _texts(one)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [value.isoformat() if isinstance(value, datetime) else str(value)]


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON. Raises InvalidRequest, with its place, for what has no form in JSON."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"The request cannot be written as JSON: {error}.") from error


def _plain(value: object) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Mapping() | set() | frozenset():
            return dict(value) if isinstance(value, Mapping) else sorted(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            dump: Callable[..., Any] | None = getattr(value, "model_dump", None)
            if dump is not None:  # a model of pydantic
                return dump(mode="json")
            raise TypeError(f"{type(value).__name__} has no form in JSON; found {value!r:.80}")


def camel(name: str) -> str:
    """A name as the API writes it: `createdAt` for `created_at`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def in_camel(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values under the names of the API. What is inside of them belongs to users, and stays as it is."""
    return {camel(name): value for name, value in values.items()}
