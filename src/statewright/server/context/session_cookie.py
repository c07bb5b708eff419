"""The cookie of a session, and the protection of a server that accepts it.

A browser sends a cookie with every request to a host, also with those that pages of others cause. Three things protect
against these: `SameSite=Strict` keeps the cookie from requests of other sites; a request that changes something must
come from a page of the same origin, because other origins may belong to the same site; and responses can be read by no
other origin, because cross-origin requests are never permitted with credentials.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from statewright.errors import Forbidden
from statewright.server.settings import is_loopback

_NAME: Final = "statewright_session"
_SECURE_NAME: Final = "__Host-statewright_session"
"""The name of a cookie that browsers accept from this very host only, and only if it was sent by HTTPS."""
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def session_token_of(request: Request) -> str | None:
    """Return the token in the cookie of a request; None if there is none."""
    if "cookie" not in request.headers:
        return None
    return request.cookies.get(_name(request)) or None


def set_session_cookie(request: Request, response: Response, token: str) -> None:
    """Let the browser keep a token until it is closed. The session may end earlier."""
    response.set_cookie(_name(request), token, path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def delete_session_cookie(request: Request, response: Response) -> None:
    """Let the browser forget the token."""
    response.delete_cookie(_name(request), path="/", secure=_is_secure(request), httponly=True, samesite="strict")


def check_origin(request: Request) -> None:
    """Raise Forbidden for a request that changes something, unless a page of this very server has sent it.

    Browsers send `Origin` with each such request. By HTTPS they also send `Sec-Fetch-Site`, which no page can set, and
    which is right even behind a proxy that sends another `Host`.
    """
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site == "same-origin":
            return
        raise Forbidden(f"The request comes from a page of another origin (sec-fetch-site: {site[:40]}).")
    origin = request.headers.get("origin")
    if origin is None:
        raise Forbidden(
            "A request with the cookie of a session must have the header Origin, as browsers send it. Other programs "
            "send a key as x-api-key."
        )
    if not _is_same_origin(origin, request.headers.get("host", "")):
        raise Forbidden(f"Web pages of {origin[:200]!r} may not use the sessions of this server.")


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == host.lower()


def _name(request: Request) -> str:
    return _SECURE_NAME if _is_secure(request) else _NAME


def _is_secure(request: Request) -> bool:
    """Return whether the cookie may only be sent by HTTPS: except on loopback, where there is often no certificate."""
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return True
    return not is_loopback(host)
