"""Authentication and authorization of requests.

A key comes as `x-api-key` or as `Authorization: Bearer`, and belongs to one workspace. Without keys, which is for
loopback only, every caller is the owner of the default workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hmac import compare_digest
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request

from statewright.errors import Forbidden, TooManyRequests, Unauthorized
from statewright.runs import DEFAULT_WORKSPACE, ApiKey, Ledger
from statewright.server.context.server_context import ServerContext, server_context_of
from statewright.service.access import METRICS, check_scope

if TYPE_CHECKING:
    from statewright.service import Service


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller."""

    context: ServerContext
    workspace_id: str
    key: ApiKey | None = None
    """None if no keys are required, and for the operator."""

    @property
    def service(self) -> Service:
        return self.context.service

    @property
    def ledger(self) -> Ledger:
        return self.context.service.context.ledger

    @property
    def now(self) -> datetime:
        return self.context.service.clock.now()


async def admit(request: Request, scope: str) -> Caller:
    """Authenticate a request. Raises Unauthorized, Forbidden without the scope, and TooManyRequests."""
    context = server_context_of(request)
    if scope == ADMIN:
        _check_admin(request, context)
        return Caller(context, DEFAULT_WORKSPACE)
    if scope == METRICS and _may_read_metrics_without_key(request, context):
        return Caller(context, DEFAULT_WORKSPACE)
    if context.settings.auth == "none":
        return Caller(context, DEFAULT_WORKSPACE)
    key = await context.keys.find(_given_key(request), context.service.clock.now())
    check_scope(key, scope)
    _count(request, context, key)
    return Caller(context, key.workspace_id, key)


ADMIN = "admin-token"
"""The scope of routes that need the token of the operator."""


def _may_read_metrics_without_key(request: Request, context: ServerContext) -> bool:
    """Return True if metrics need no key, and for the operator. Raises HTTPException if they are disabled."""
    access = context.settings.metrics_access
    if access == "off":
        raise HTTPException(404)
    if access == "open":
        return True
    expected = context.settings.admin_token
    given = request.headers.get("x-admin-token")
    return expected is not None and given is not None and compare_digest(given.encode(), expected.encode())


def _given_key(request: Request) -> str:
    """Return the API key of a request. Raises Unauthorized if there is none."""
    key = request.headers.get("x-api-key")
    if key is None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = None
    if not key:
        raise Unauthorized(
            "The request has no credentials. Send a key as x-api-key, or as Authorization: Bearer <key>."
        )
    return key.strip()


def _check_admin(request: Request, context: ServerContext) -> None:
    expected = context.settings.admin_token
    if expected is None:
        if context.settings.auth == "none":
            return
        raise Forbidden("Workspaces cannot be managed over HTTP: the server was started without an admin token.")
    given = request.headers.get("x-admin-token", "")
    if not compare_digest(given.encode(), expected.encode()):
        raise Unauthorized("The admin token is missing or wrong. Send it as x-admin-token.")


def _count(request: Request, context: ServerContext, key: ApiKey) -> None:
    """Count a request against the rate limit of its key, and set the rate-limit headers of the response."""
    most = key.requests_per_minute
    if most is None:
        return
    try:
        context.rates.check(f"key:{key.id}", most, context.service.clock.now())
    except TooManyRequests:
        request.scope["rate_headers"] = _rate_headers(most, 0)
        raise
    left = context.rates.remaining(f"key:{key.id}", most, context.service.clock.now())
    request.scope["rate_headers"] = _rate_headers(most, left)


def _rate_headers(most: int, left: int) -> list[tuple[str, str]]:
    return [("x-ratelimit-limit", str(most)), ("x-ratelimit-remaining", str(left))]
