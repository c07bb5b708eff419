"""The declaration of routes, and the checks before their functions are called.

`describe` has the texts of a route in the OpenAPI document and the scope that a key needs. Before the function of a
route is called, the caller is authenticated, unknown query parameters are refused, and the body is decoded strictly.
Functions encode their responses themselves: response models only serve the document, and tests that compare both."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar

from fastapi import Depends, Path, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from statewright.api.resource import camel
from statewright.errors import InvalidRequest, suggestion
from statewright.server.context.auth import Caller, admit
from statewright.server.http.decode import decode
from statewright.server.http.representation import Representation

T = TypeVar("T")
_REASONS: Final[Mapping[int, str]] = {
    400: "The request is not valid; the error lists every problem with its path.",
    401: "No credentials, or an unknown, revoked or expired key.",
    403: "The key lacks the required scope.",
    404: "Not found in this workspace.",
    409: "The request conflicts with current state, which the error describes.",
    413: "The body is too large.",
    429: "A rate limit or a daily spending limit is reached; `retry-after` says when to retry.",
    503: "The request cannot be served now; `retry-after` says when to retry.",
}
_OPEN: Final = "open"
"""The scope of public routes."""


# -- envelopes of responses, as the OpenAPI document describes them; `encode` writes them


class Answer(BaseModel, Generic[T]):
    """The envelope of a successful response."""

    success: Literal[True]
    data: T


class Meta(BaseModel):
    """The position of a page in its list."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=camel)

    page: int
    page_size: int
    total: int
    total_pages: int


class Answers(BaseModel, Generic[T]):
    """The envelope of a page of a list."""

    success: Literal[True]
    data: list[T]
    meta: Meta


class RefusalError(BaseModel):
    """The reason for which a request has failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    """Identifies the kind of error, for programs."""
    message: str
    """States the problem, its place, the value that was found, and what to do."""
    details: Any


class Refusal(BaseModel):
    """The envelope of an error."""

    success: Literal[False]
    error: RefusalError


# -- the description of a route


def describe(
    summary: str,
    answer: Any = None,
    *,
    scope: str = _OPEN,
    many: bool = False,
    page: bool = False,
    status: int = 200,
    also: Mapping[int, str] | None = None,
    errors: Sequence[int] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
    body: Any = None,
    special: Mapping[int | str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the arguments of a route decorator that describe the route in the OpenAPI document.

    `answer` is a `Representation` or a type; `many` means a list of it, and `page` a list in pages. `also` has further
    statuses with the same answer, `errors` the error statuses in addition to those of every request, and `special` the
    descriptions of responses without an envelope.
    """
    model = None if answer is None else _envelope_of(answer, many=many, page=page)
    general = () if scope == _OPEN else (400, 401, 403, 413, 429, 503)
    responses: dict[int | str, Any] = {status: _response(summary, model)}
    responses.update({code: _response(text, model) for code, text in (also or {}).items()})
    responses.update({code: _response(_REASONS[code], Refusal) for code in sorted({*general, *errors})})
    responses.update(special or {})
    extra: dict[str, Any] = {"x-scope": scope}
    if parameters:
        extra["parameters"] = list(parameters)
    if body is not None:
        extra["requestBody"] = body
    return {
        "summary": summary,
        "status_code": status,
        "responses": responses,
        "response_model": None,
        "openapi_extra": extra,
        "response_class": Response,
    }


def _envelope_of(answer: Any, *, many: bool, page: bool) -> Any:
    data = answer.model if isinstance(answer, Representation) else answer
    return Answers[data] if page else Answer[list[data]] if many else Answer[data]


def _response(description: str, model: Any) -> dict[str, Any]:
    return {"description": description} if model is None else {"description": description, "model": model}


# -- the checks before a function is called


class StrictRequest(Request):
    """A request whose body is decoded strictly; see `decode`."""

    async def json(self) -> Any:
        try:
            return decode(await self.body())
        except InvalidRequest as error:
            # The framework passes its own exceptions on, and would hide the message of others.
            raise HTTPException(400, str(error)) from error


class StrictRoute(APIRoute):
    """Authenticates the caller, and refuses unknown query parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        extra: Mapping[str, Any] = self.openapi_extra or {}
        scope: str = extra.get("x-scope", _OPEN)
        names = set(_query_names(self.dependant))
        prefixes = tuple(str(parameter["name"]) for parameter in extra.get("parameters", ()))

        async def handle_strictly(request: Request) -> Response:
            if scope != _OPEN:
                request.scope["caller"] = await admit(request, scope)
            _check_names(request, names, prefixes)
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def _query_names(dependant: Dependant) -> Iterator[str]:
    """Yield the query parameters of a route and of its dependencies."""
    yield from (str(field.alias) for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _query_names(dependency)


def _check_names(request: Request, names: set[str], prefixes: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in names and not name.startswith(tuple(prefix + mark for prefix in prefixes for mark in ".[")):
            valid_names = {*names, *(f"{prefix}.<name>" for prefix in prefixes)}
            raise InvalidRequest(
                f"{request.method} {request.url.path} has no parameter {name!r}. "
                + suggestion(name, valid_names, noun="Parameters"),
                details={"problems": [{"path": f"query.{name}", "message": "is not known"}]},
            )


async def _caller_of(request: Request) -> Caller:
    return request.scope["caller"]


CurrentCaller = Annotated[Caller, Depends(_caller_of)]
"""The authenticated caller."""
PathId = Annotated[str, Path(alias="id", min_length=1, max_length=200)]
"""The id in a path."""
