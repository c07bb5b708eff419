"""Declaration of routes, and the checks that run before their functions.

`describe` declares the OpenAPI description of a route and the scope that a key needs. Before the route function is
called, the caller is authenticated, unknown query parameters are rejected, and the body is decoded strictly. Route
functions encode their responses themselves. Response models are used only for the OpenAPI document, and by tests that
compare the responses with it.
"""

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
from statewright.server.context.auth import Caller, authorize
from statewright.server.http.decode import decode
from statewright.server.http.representation import Representation

T = TypeVar("T")
_REASONS: Final[Mapping[int, str]] = {
    400: "The request is not valid; the error lists all problems with their paths.",
    401: "No credentials, or an unknown, revoked or expired key.",
    403: "The key lacks the required scope.",
    404: "Not found in this workspace.",
    409: "The request conflicts with current state, which the error describes.",
    413: "The body is too large.",
    429: "A rate limit or a daily spending limit has been reached; `retry-after` says when to retry.",
    503: "The request cannot be served now; `retry-after` says when to retry.",
}
"""The descriptions of error responses in the OpenAPI document, by status."""
OPEN: Final = "open"
"""The scope of public routes."""


# -- response envelopes, written by `encode`; their names here are the schema names of the OpenAPI document


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
    """The envelope of one page of a list."""

    success: Literal[True]
    data: list[T]
    meta: Meta


class RefusalError(BaseModel):
    """The reason why a request failed."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    """Identifies the kind of error, for programs."""
    message: str
    """Describes the problem, for people: what is wrong, where, and what to do."""
    details: Any


class Refusal(BaseModel):
    """The envelope of an error response."""

    success: Literal[False]
    error: RefusalError


# -- the description of a route


def describe(
    summary: str,
    data: Any = None,
    *,
    scope: str = OPEN,
    is_list: bool = False,
    is_paged: bool = False,
    status: int = 200,
    other_statuses: Mapping[int, str] = {},
    errors: Sequence[int] = (),
    parameters: Sequence[Mapping[str, Any]] = (),
    body: Any = None,
    raw_responses: Mapping[int, Mapping[str, Any]] = {},
) -> dict[str, Any]:
    """Return the keyword arguments of a route decorator that describe the route in the OpenAPI document.

    `data` is the `Representation` or the type of the data in the envelope. With `is_list` the envelope contains a list
    of such data, and with `is_paged` one page of a list. `scope` is the scope that a key needs. `other_statuses`
    describes further statuses with the same data, `errors` lists error statuses in addition to the usual ones, and
    `raw_responses` describes responses without an envelope. `parameters` and `body` describe, in the form of the
    document, what the signature of the route function does not show.
    """
    model = None if data is None else _envelope_model(data, is_list=is_list, is_paged=is_paged)
    usual_errors = () if scope == OPEN else (400, 401, 403, 413, 429, 503)
    responses: dict[int | str, Any] = {
        **{code: {"description": text, "model": model} for code, text in {status: summary, **other_statuses}.items()},
        **{code: {"description": _REASONS[code], "model": Refusal} for code in sorted({*usual_errors, *errors})},
        **raw_responses,
    }
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


def _envelope_model(data: Any, *, is_list: bool, is_paged: bool) -> Any:
    model = data.model if isinstance(data, Representation) else data
    return Answers[model] if is_paged else Answer[list[model]] if is_list else Answer[model]


# -- checks before the route function is called


class StrictRequest(Request):
    """A request whose body is decoded strictly; see `decode`."""

    async def json(self) -> Any:
        try:
            return decode(await self.body())
        except InvalidRequest as error:
            # FastAPI replaces the message of any exception that is raised here, except that of an HTTPException.
            raise HTTPException(400, str(error)) from error


class StrictRoute(APIRoute):
    """A route that authenticates the caller and rejects unknown query parameters."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        extra: Mapping[str, Any] = self.openapi_extra or {}
        scope: str = extra.get("x-scope", OPEN)
        names = set(_query_names(self.dependant))
        prefixes = tuple(str(parameter["name"]) for parameter in extra.get("parameters", ()))

        async def handle_strictly(request: Request) -> Response:
            if scope != OPEN:
                request.scope["caller"] = await authorize(request, scope)
            _check_query_names(request, names, prefixes)
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def _query_names(dependant: Dependant) -> Iterator[str]:
    """Yield the query parameters of a route and of its dependencies."""
    yield from (str(field.alias) for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _query_names(dependency)


def _check_query_names(request: Request, names: set[str], prefixes: tuple[str, ...]) -> None:
    """Raise InvalidRequest for an unknown query parameter. A prefix `p` allows the names `p.x` and `p[x]`."""
    for name in request.query_params:
        if name not in names and not name.startswith(tuple(prefix + sign for prefix in prefixes for sign in ".[")):
            valid_names = {*names, *(f"{prefix}.<name>" for prefix in prefixes)}
            raise InvalidRequest(
                f"{request.method} {request.url.path} has no query parameter {name!r}. "
                + suggestion(name, valid_names, noun="Parameters"),
                details={"problems": [{"path": f"query.{name}", "message": "is not known"}]},
            )


async def _caller_of(request: Request) -> Caller:
    return request.scope["caller"]


CurrentCaller = Annotated[Caller, Depends(_caller_of)]
"""The authenticated caller of the request."""
PathId = Annotated[str, Path(alias="id", min_length=1, max_length=200)]
"""The id in the path of the request."""
