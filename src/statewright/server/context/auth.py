"""Authentication and authorization of requests.

A key is sent as `x-api-key` or as `Authorization: Bearer`, and belongs to one workspace. The web page sends the cookie
of a session instead, which counts as its key: see `session_cookie`. With `auth="none"`, which is only allowed on
loopback, every caller has full access to the default workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from statewright.errors import Forbidden, Unauthorized
from statewright.runs import DEFAULT_WORKSPACE, ApiKey, Ledger
from statewright.server.context.server_context import ServerContext, server_context_of
from statewright.server.context.session_cookie import check_origin, session_token_of
from statewright.service.access import METRICS, OPERATOR_SCOPES, check_scope
from statewright.service.access.sessions import find_session

if TYPE_CHECKING:
    from statewright.service import Service


OPERATOR: Final = "admin-token"
"""The scope of routes that require the admin token; unlike `service.access.ADMIN`, no key can have it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    context: ServerContext
    workspace_id: str
    key: ApiKey | None = None
    """The caller's API key; None for the operator, or if no key is required."""
    session_id: str | None = None
    """The session in which the key is used; None if the request itself has the key."""

    @property
    def service(self) -> Service:
        return self.context.service

    @property
    def ledger(self) -> Ledger:
        return self.context.service.context.ledger

    @property
    def now(self) -> datetime:
        return self.context.service.clock.now()


async def authorize(request: Request, scope: str) -> Caller:
    """Authenticate a request and check its scope. Raises Unauthorized, Forbidden or TooManyRequests."""
    context = server_context_of(request)
    if scope == OPERATOR:
        _check_admin_token(request, context)
        return Caller(context, DEFAULT_WORKSPACE)
    if (scope == METRICS and _may_read_metrics_without_key(request, context)) or context.settings.auth == "none":
        return Caller(context, DEFAULT_WORKSPACE)
    if scope in OPERATOR_SCOPES and _has_admin_token(request, context):
        return Caller(context, DEFAULT_WORKSPACE)
    key, session_id = await _credentials(request, context)
    check_scope(key, scope)
    _count_request(request, context, key)
    return Caller(context, key.workspace_id, key, session_id)


async def _credentials(request: Request, context: ServerContext) -> tuple[ApiKey, str | None]:
    """Return the key of a request, and the session by which it is named, if any. Raises Unauthorized or Forbidden."""
    now = context.service.clock.now()
    token = session_token_of(request)
    if token is None or _has_api_key(request):  # a key is sent on purpose, and a cookie by the browser
        return await context.key_ring.find(_api_key_of(request), now), None
    check_origin(request)
    signed_in = await find_session(context.service.context.ledger, token, now, context.session_idle)
    return signed_in.key, signed_in.session.id


def _has_api_key(request: Request) -> bool:
    return "x-api-key" in request.headers or "authorization" in request.headers


def _may_read_metrics_without_key(request: Request, context: ServerContext) -> bool:
    """Return True if metrics are open or the caller sent the admin token. Raises HTTPException if they are disabled."""
    access = context.settings.metrics_access
    if access == "off":
        raise HTTPException(404)
    return access == "open" or _has_admin_token(request, context)


def _api_key_of(request: Request) -> str:
    """Return the API key of a request. Raises Unauthorized if there is none."""
    key = request.headers.get("x-api-key")
    if key is None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = None
    if not key:
        raise Unauthorized(
            "The request has no credentials. Send an API key as x-api-key, or as Authorization: Bearer <key>."
        )
    return key.strip()


def _check_admin_token(request: Request, context: ServerContext) -> None:
    if context.settings.admin_token is None:
        if context.settings.auth == "none":
            return
        raise Forbidden("Workspaces cannot be managed over HTTP: the server was started without an admin token.")
    if not _has_admin_token(request, context):
        raise Unauthorized("The admin token is missing or wrong. Send it as x-admin-token.")


def _has_admin_token(request: Request, context: ServerContext) -> bool:
    expected, token = context.settings.admin_token, request.headers.get("x-admin-token", "")
    return expected is not None and compare_digest(token.encode(), expected.encode())


def _count_request(request: Request, context: ServerContext, key: ApiKey) -> None:
    """Count a request against the rate limit of its key, and set the rate-limit headers of the response."""
    limit = key.requests_per_minute
    if limit is None:
        return
    remaining = 0  # sent with the error response if the check raises TooManyRequests
    now = context.service.clock.now()
    try:
        context.rate_limiter.check(f"key:{key.id}", limit, now)
        remaining = context.rate_limiter.remaining(f"key:{key.id}", limit, now)
    finally:
        headers = [("x-ratelimit-limit", str(limit)), ("x-ratelimit-remaining", str(remaining))]
        request.scope["rate_headers"] = headers
