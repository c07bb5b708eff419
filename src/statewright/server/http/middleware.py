"""Pure ASGI middleware for all requests, from the outermost to the innermost.

`RequestLifecycle` assigns a request id, records metrics and handles unexpected errors. `HostCheck` protects a server
without keys from malicious web pages. `BodyLimit` limits the size of request bodies. `PathAlias` serves `/v1` as
`/api/v1`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from statewright.observe import Metrics, bound
from statewright.server.http.encode import error_response
from statewright.server.http.errors import response_for
from statewright.server.settings import is_loopback

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestLifecycle:
    """Assigns an id to each request, records its duration, and answers unexpected errors with a 500 without details."""

    def __init__(self, app: ASGIApp, metrics: Metrics | None = None) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = Headers(scope=scope).get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = f"req_{uuid4().hex}"
        scope["request_id"] = request_id
        response = _ResponseSender(scope, send)
        started_at = time.perf_counter()
        try:
            with bound(request_id=request_id):
                await self._app(scope, receive, response.send)
        except Exception as error:
            if response.status:  # a partial response was sent: abort, so that the client does not think it complete
                raise
            await response_for(error, request_id)(scope, receive, response.send)
        finally:
            if self._metrics is not None:
                seconds = time.perf_counter() - started_at
                # The label is the path pattern of the route, so that the metric has a bounded number of label values.
                path = getattr(scope.get("route"), "path", "unknown")
                # 499: the client disconnected before the response began.
                self._metrics.record_request(scope["method"], path, response.status or 499, seconds)


class _ResponseSender:
    """Sends a response with the common headers, and records its status."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status = 0
        """The status of the response; 0 until the response begins."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self._scope["request_id"]
            headers.setdefault("x-content-type-options", "nosniff")
            headers.setdefault("cache-control", "no-store")
            for name, value in self._scope.get("rate_headers", ()):
                headers[name] = value
        await self._send(message)


class BodyLimit:
    """Rejects bodies that are too large, both by their Content-Length and while they are received."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (length := _declared_length(scope)) is not None and length > self._max_bytes:
            response = error_response(
                413, "PAYLOAD_TOO_LARGE", self._message(f"has {length} bytes"), {"maxBytes": self._max_bytes}
            )
            await response(scope, receive, send)
        else:
            await self._app(scope, self._count_bytes(receive), send)

    def _count_bytes(self, receive: Receive) -> Receive:
        total = 0

        async def receive_and_count() -> Message:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self._max_bytes:
                raise HTTPException(413, self._message("is too large"))
            return message

        return receive_and_count

    def _message(self, problem: str) -> str:
        return (
            f"The body {problem}; the limit is {self._max_bytes} bytes. "
            f"Send less, or store the content elsewhere and send its URL."
        )


def _declared_length(scope: Scope) -> int | None:
    """Return the Content-Length of a request; None if it is missing or invalid."""
    length = Headers(scope=scope).get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


class HostCheck:
    """Accepts only requests to loopback or allowed host names, and only from web pages on these hosts.

    Without this check, a malicious web page could make the user's browser call a server that requires no keys, either
    by a domain name that resolves to loopback (DNS rebinding) or by a form (CSRF).
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in allowed_hosts}
        self._origins = set(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._refusal_reason(scope) if scope["type"] in ("http", "websocket") else None
        if reason is None:
            await self._app(scope, receive, send)
        else:
            await error_response(403, "FORBIDDEN", reason)(scope, receive, send)

    def _refusal_reason(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_local(_hostname(f"//{host}")):
            return (
                f"The request was sent to host {host!r}, but a server without API keys only accepts requests to "
                f"loopback addresses. Use 127.0.0.1, or add the host to allowed_hosts."
            )
        origin = headers.get("origin")
        if origin is None or origin in self._origins or scope.get("method") in _SAFE_METHODS:
            return None
        if self._is_local(_hostname(origin)):
            return None
        return f"Web pages of {origin!r} may not call this server. Add the origin to cors_origins to allow it."

    def _is_local(self, name: str) -> bool:
        return is_loopback(name) or name in self._hosts


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class PathAlias:
    """Serves each path under `/v1` like the same path under `/api/v1`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/"):
            raw_path = scope.get("raw_path")  # optional in ASGI
            scope = {**scope, "path": f"/api{scope['path']}", "raw_path": b"/api" + raw_path if raw_path else raw_path}
        await self._app(scope, receive, send)
