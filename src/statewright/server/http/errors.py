"""Mapping of errors to HTTP responses."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match

from statewright.errors import (
    CheckpointConflict,
    CheckpointNotFound,
    GraphDrained,
    GraphError,
    GraphVersionMismatch,
    InvalidGraph,
    InvalidRequest,
    LeaseLost,
    NamespaceBusy,
    RecordConflict,
    RunError,
    SerdeError,
    ServiceError,
    StatewrightError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
    ThreadBusy,
    TooManyRequests,
    WorkflowError,
)
from statewright.server.http.encode import JsonResponse, error_response

logger = logging.getLogger("statewright.server")

_STATUSES: Final[Sequence[tuple[type[StatewrightError], int, str]]] = (
    (CheckpointNotFound, 404, "NOT_FOUND"),
    (CheckpointConflict, 409, "CONFLICT"),
    (ThreadBusy, 409, "CONFLICT"),
    (LeaseLost, 409, "CONFLICT"),
    (NamespaceBusy, 409, "CONFLICT"),
    (RecordConflict, 409, "CONFLICT"),
    (GraphVersionMismatch, 409, "CONFLICT"),
    (StorageUnavailable, 503, "UNAVAILABLE"),
    (GraphDrained, 503, "UNAVAILABLE"),
    (SerdeError, 400, "VALIDATION_ERROR"),
    (GraphError, 400, "VALIDATION_ERROR"),
    (RunError, 400, "VALIDATION_ERROR"),
)
"""Status and code by class of error; the first match applies. Other errors are internal and answered with 500."""
_CODES: Final[Mapping[int, str]] = {
    400: InvalidRequest.api_code,
    401: "AUTH_ERROR",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    413: "PAYLOAD_TOO_LARGE",
}
"""Codes of HTTPExceptions by status. For any other status, the code is derived from its reason phrase."""
_UNAVAILABLE_MESSAGES: Final[Mapping[type[StatewrightError], str]] = {
    StorageFull: "The database is full, and nothing was saved.",
    StorageLocked: "The database is locked, and nothing was saved.",
    StorageUnavailable: "The database is not available, and nothing was saved.",
    GraphDrained: "The server is shutting down.",
}
"""Public messages for the errors with status 503; the first match applies."""
RETRY_AFTER: Final = 1
"""The value of Retry-After for temporary failures, in seconds."""


def add_error_handlers(app: FastAPI) -> None:
    """Register handlers that turn errors into responses in the standard envelope."""
    app.add_exception_handler(StatewrightError, _handle_statewright_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.add_exception_handler(HTTPException, _handle_http_error)


def response_for(error: BaseException, request_id: str = "") -> JsonResponse:
    """Return the response for an error. The response for an internal error reveals only the request id."""
    if isinstance(error, ServiceError) and error.status < 500:
        return error_response(error.status, error.api_code, str(error), error.details, headers=_headers(error))
    for cls, status, code in _STATUSES:
        if isinstance(error, cls):
            if status >= 500:
                return _unavailable_response(error, status, code, request_id)
            return error_response(status, code, str(error), _details(error), headers=_headers(error))
    logger.error("A request failed with an internal error: %s", request_id, exc_info=error)
    return internal_error_response(request_id)


def internal_error_response(request_id: str) -> JsonResponse:
    """Return the response for an internal error; the log has the details under the request id."""
    return error_response(
        500,
        "INTERNAL_ERROR",
        f"The request failed with an internal error. The server log has details under {request_id!r}.",
        {"requestId": request_id},
    )


def _unavailable_response(error: StatewrightError, status: int, code: str, request_id: str) -> JsonResponse:
    """Return the response for a storage failure or a shutdown.

    The message of the error is only logged, because it may contain names of files.
    """
    logger.warning("A request cannot be served now: %s: %s", request_id, error)
    message = next(message for cls, message in _UNAVAILABLE_MESSAGES.items() if isinstance(error, cls))
    details = {**_details(error), "requestId": request_id}
    return error_response(status, code, f"{message} Try again later.", details, headers=_headers(error))


def _headers(error: StatewrightError) -> dict[str, str] | None:
    if isinstance(error, TooManyRequests):
        return {"retry-after": str(max(1, round(error.retry_after + 0.5)))}
    return {"retry-after": str(RETRY_AFTER)} if isinstance(error, StorageUnavailable | GraphDrained) else None


def _details(error: StatewrightError) -> Any:
    match error:
        case WorkflowError():
            return {"problems": [problem._asdict() for problem in error.problems], "type": error.code}
        case InvalidGraph():
            return {"problems": [{"message": problem} for problem in error.problems], "type": error.code}
        case _:
            return {"type": error.code}


async def _handle_statewright_error(request: Request, error: Exception) -> JsonResponse:
    return response_for(error, str(request.scope.get("request_id", "")))


async def _handle_validation_error(request: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, RequestValidationError)
    return validation_error_response(error.errors())


def validation_error_response(errors: Sequence[Mapping[str, Any]]) -> JsonResponse:
    """Return the response for an invalid request, with the path and message of each problem."""
    problems = [{"path": _format_path(error["loc"]), "message": _problem_message(error)} for error in errors]
    summary = "; ".join(f"{problem['path'] or 'body'}: {problem['message']}" for problem in problems[:3])
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return error_response(
        400, InvalidRequest.api_code, f"The request is not valid: {summary}{more}.", {"problems": problems}
    )


def _format_path(location: Sequence[Any]) -> str:
    """Return the path of a problem, such as `body.steps[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")


def _problem_message(error: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors, worded to follow the path of the value."""
    if error["loc"] == ("body",) and isinstance(error.get("input"), bytes):
        return "should be JSON; send it with content-type: application/json"
    message = str(error["msg"]).removeprefix("Value error, ")
    return re.sub(r"^Input s", "s", message)


async def _handle_http_error(request: Request, error: Exception) -> JsonResponse:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, HTTPStatus(error.status_code).phrase.upper().replace(" ", "_"))
    message = f"{request.method} {request.url.path}: {error.detail}"
    if error.status_code == 404:
        message = f"Path {request.url.path!r} does not exist. GET /openapi.json lists the paths."
    elif error.status_code == 405:
        methods = ", ".join(_methods_at(request))
        message = f"{request.url.path} does not support {request.method}. It supports {methods}."
    elif error.status_code in (400, 413):
        message = str(error.detail)
    headers = {"allow": ", ".join(_methods_at(request))} if error.status_code == 405 else error.headers
    return error_response(error.status_code, code, message, headers=headers)


def _methods_at(request: Request) -> list[str]:
    """Return the HTTP methods that the path of a request supports."""
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    scopes = ({**request.scope, "method": method} for method in methods)
    return [
        scope["method"]
        for scope in scopes
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)
    ]
