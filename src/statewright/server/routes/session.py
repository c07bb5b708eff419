"""Routes of the session of the web page: signing in with a key, who is signed in, and signing out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from statewright.async_futures import aresolve
from statewright.errors import Unauthorized
from statewright.runs import DEFAULT_WORKSPACE, Workspace
from statewright.server.context.server_context import ServerContext, server_context_of
from statewright.server.context.session_cookie import (
    check_origin,
    delete_session_cookie,
    session_token_of,
    set_session_cookie,
)
from statewright.server.http.body import Body
from statewright.server.http.encode import success_response
from statewright.server.http.route import StrictRoute, describe
from statewright.server.resources import SESSION
from statewright.service.access import ADMIN, OPERATOR_SCOPES, SCOPES
from statewright.service.access.sessions import SignedIn, close_session, find_session, open_session

router = APIRouter(prefix="/api/v1/session", route_class=StrictRoute, tags=["session"])


class SignInBody(Body):
    """The key to sign in with."""

    key: Annotated[str, Field(min_length=1, max_length=200, repr=False)]
    """An API key. It is exchanged for a cookie, and not kept."""


@router.post("", **describe("Sign in with a key.", SESSION, errors=(400, 401, 403, 413, 503)))
async def sign_in(request: Request, body: SignInBody) -> Response:
    """Sets the cookie of a session, which counts as the key, with its scopes and its workspace. The session ends by
    signing out, when the key is revoked or expires, and when it was not used for some time. A server without keys sets
    no cookie."""
    check_origin(request)
    context = server_context_of(request)
    if context.settings.auth == "none":
        return success_response(await _describe(context, None))
    ledger, now = context.service.context.ledger, context.service.clock.now()
    signed_in, token = await open_session(ledger, body.key.strip(), now, context.session_idle)
    response = success_response(await _describe(context, signed_in))
    set_session_cookie(request, response, token)
    return response


@router.get("", **describe("Get the current session.", SESSION, errors=(503,)))
async def read_session(request: Request) -> Response:
    """Says who is signed in, and never fails for want of a key: `authenticated` is false then. It does not prolong the
    session."""
    context = server_context_of(request)
    return success_response(await _describe(context, await _signed_in(request, context)))


@router.delete("", **describe("Sign out.", SESSION, errors=(403, 503)))
async def sign_out(request: Request) -> Response:
    """Ends the session on the server, with the streams that were opened in it, and removes the cookie."""
    context = server_context_of(request)
    token = session_token_of(request)
    if token is not None:
        check_origin(request)
        session_id = await close_session(context.service.context.ledger, token)
        if session_id is not None:
            context.streams.stop_session(session_id)
    response = success_response(await _describe(context, None))
    delete_session_cookie(request, response)
    return response


async def _signed_in(request: Request, context: ServerContext) -> SignedIn | None:
    token = session_token_of(request)
    if token is None or context.settings.auth == "none":
        return None
    try:
        now = context.service.clock.now()
        return await find_session(context.service.context.ledger, token, now, context.session_idle, uses=False)
    except Unauthorized:
        return None


async def _describe(context: ServerContext, signed_in: SignedIn | None) -> dict[str, Any]:
    needs_key = context.settings.auth == "keys"
    if needs_key and signed_in is None:
        return dict.fromkeys(SESSION.names) | {"authenticated": False, "keyRequired": True, "scopes": []}
    workspace_id = signed_in.key.workspace_id if signed_in is not None else DEFAULT_WORKSPACE
    workspace = await aresolve(context.service.context.ledger.get(Workspace, workspace_id))
    return {
        "authenticated": True,
        "keyRequired": needs_key,
        "scopes": _effective_scopes(signed_in),
        "workspaceId": workspace_id,
        "workspace": (workspace.name or workspace.slug) if workspace is not None else None,
        "keyId": signed_in.key.id if signed_in is not None else None,
        "keyName": signed_in.key.name if signed_in is not None else None,
        "expiresAt": signed_in.expires_at(context.session_idle) if signed_in is not None else None,
    }


def _effective_scopes(signed_in: SignedIn | None) -> list[str]:
    """Return the scopes that a caller may use, with those that `admin` includes."""
    if signed_in is None:
        return list(SCOPES)
    scopes = set(signed_in.key.scopes)
    included = {scope for scope in SCOPES if scope not in OPERATOR_SCOPES} if ADMIN in scopes else set[str]()
    return [scope for scope in SCOPES if scope in scopes | included]
