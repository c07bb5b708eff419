"""The built-in tool for HTTP requests.

Every redirect is checked like the first request. Credentials are sent only to the origin of their integration. Proxies
from environment variables are not used, because a proxy would resolve the host again after the check.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import json as json_
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from string import punctuation
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from statewright.agents import Credentials, HttpError, ToolContext
from statewright.errors import ToolError
from statewright.http import CertificateError, HttpRequest, Url, retry_after, send
from statewright.runtime.concurrency.thread_calls import call_in_thread
from statewright.workflow.states.tools.guard import Guard, read_url
from statewright.workflow.states.tools.integrations import base_url, check_origin

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECT_LIMIT: Final = 5
_REDIRECT_STATUSES: Final = (301, 302, 303, 307, 308)
_CROSS_ORIGIN_HEADERS: Final = frozenset(["accept", "accept-language", "accept-encoding", "content-type", "user-agent"])
"""Headers that a redirect to another origin keeps."""
_RESERVED_HEADERS: Final = frozenset(
    ["host", "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade"]
)
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)
_CHARSETS: Final = frozenset(["utf-8", "ascii", "iso8859-1", "cp1252", "utf-16", "iso8859-15"])
_QUOTE_LIMIT: Final = 300
"""Maximum characters of a response in an error message."""


class HttpRequests:
    """Sends requests to the hosts that a project allows."""

    def __init__(self, allow_hosts: Sequence[str], *, limit: int, seconds: float) -> None:
        """Parse the allow-list. Raises ToolError for an invalid host.

        `limit` is the maximum size of a response in bytes. `seconds` is the timeout of a request with its redirects.
        """
        self._guard = Guard(allow_hosts)
        self._limit = limit
        self._seconds = seconds

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def http_request(
        self,
        url: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        json: Any = None,
        text: str | None = None,
        *,
        context: ToolContext,
    ) -> str:
        """Send an HTTP request, and return the text of the response.

        Args:
            url: The URL, or with an integration a path below its own URL.
            method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
            headers: Headers to send.
            json: A value to send as JSON.
            text: A text to send.
        """
        request, guard = self._build_request(url, method, headers or {}, _encode_body(json, text), context.credentials)
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(REDIRECT_LIMIT + 1):
                    response = await exchange(
                        request,
                        await call_in_thread(guard.resolve, request.url),
                        certificates=self._certificates,
                        timeout=self._seconds,
                        limit=self._limit,
                    )
                    location = response.headers.get("location")
                    if response.status not in _REDIRECT_STATUSES or location is None:
                        return _read_text(request, response, context.credentials)
                    request = follow_redirect(request, response.status, location)
        except TimeoutError:
            raise TimeoutError(f"{request.url.host!r} did not respond within {self._seconds:g} s.") from None
        raise ToolError(
            f"{request.url.host!r} redirected the request more than {REDIRECT_LIMIT} times. Request the final URL "
            f"directly."
        )

    def _build_request(
        self, url: str, method: str, headers: Mapping[str, str], body: _Body, credentials: Credentials
    ) -> tuple[HttpRequest, Guard]:
        """Return the first request, and the guard that checks this request and its redirects."""
        if method.upper() not in METHODS:
            raise ToolError(f"{method[:40]!r} is not an HTTP method. Methods: {', '.join(METHODS)}.")
        base = base_url(credentials)
        if base is None and credentials:
            # Without a base URL, the credentials could be sent to any allowed host.
            raise ToolError(
                f"Integration {credentials.alias!r} has no base_url, which defines where its credentials may be sent. "
                f"Add a base_url in statewright.toml."
            )
        target, guard = _resolve_url(base, url), self._guard
        if base is not None:
            check_origin(credentials, base, target)
            guard = guard.with_origin(base)
        content, content_type = body
        # "identity" excludes compression, because a small compressed response could expand to any size.
        default_headers = {"accept": "*/*", "user-agent": "statewright", "accept-encoding": "identity"}
        if content_type is not None:
            default_headers["content-type"] = content_type
        all_headers = {**default_headers, **_read_headers(headers), **_make_auth_headers(credentials)}
        return HttpRequest(method.upper(), target, all_headers, content), guard


class WholeResponse(NamedTuple):
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    """The headers by their names in lower case."""
    body: bytes


async def exchange(
    request: HttpRequest, addresses: Sequence[str], *, certificates: ssl.SSLContext, timeout: float, limit: int
) -> WholeResponse:
    """Send a request to one of the addresses, and return the response.

    `timeout` is in seconds, and `limit` is the maximum size of the body in bytes. Raises ConnectionError and
    TimeoutError for temporary failures, and ToolError for permanent failures.
    """
    host = request.url.host
    try:
        async with send(request, addresses, certificates=certificates, timeout=timeout) as response:
            body = await response.read(limit)
    except CertificateError as error:
        raise ToolError(f"The certificate of {host!r} cannot be trusted: {error}.") from None
    except ConnectionError as error:
        raise ConnectionError(f"The connection to {host!r} failed: {error}.") from None
    except ValueError as error:
        raise ToolError(f"The request to {host!r} cannot be sent: {error}.") from None
    if len(body) > limit:
        raise ToolError(f"The response of {host!r} has more than {limit} bytes. Request a smaller part of it.")
    return WholeResponse(response.status, response.headers, body)


_Body = tuple[bytes | None, str | None]
"""The body, and its content type."""


def _encode_body(json: Any, text: str | None) -> _Body:
    if json is not None and text is not None:
        raise ToolError("The request has both json and text. Pass one of them.")
    if json is not None:
        return json_.dumps(json, ensure_ascii=False).encode(errors="replace"), "application/json"
    return (None, None) if text is None else (text.encode(errors="replace"), "text/plain; charset=utf-8")


def _resolve_url(base: Url | None, url: str) -> Url:
    """Return the URL of the request. It may be relative to the base URL of the integration, if there is one."""
    if base is None:
        return read_url(url)
    return read_url(url if _SCHEME.match(url) else url.lstrip("/"), base=f"{base}".rstrip("/") + "/")


def _read_headers(fields: Mapping[str, str]) -> dict[str, str]:
    headers = {str(name).lower(): str(value) for name, value in fields.items()}
    for name in headers:
        if not _HEADER_NAME.fullmatch(name):
            raise ToolError(f"{name[:80]!r} is not a header name. Use letters, digits and hyphens.")
        if name in _RESERVED_HEADERS:
            raise ToolError(f"The header {name!r} cannot be set by tools. Remove it.")
    return headers


def _make_auth_headers(credentials: Credentials) -> dict[str, str]:
    """Return the headers of an integration: a bearer token, basic authentication, or its own headers."""
    headers: dict[str, str] = {}
    if "token" in credentials:
        headers["authorization"] = f"Bearer {credentials['token']}"
    elif "username" in credentials and "password" in credentials:
        pair = f"{credentials['username']}:{credentials['password']}"
        encoded = base64.b64encode(pair.encode(errors="replace")).decode()
        credentials.keep_secret(encoded)
        headers["authorization"] = f"Basic {encoded}"
    own_headers: Any = credentials.get("headers")
    if isinstance(own_headers, Mapping):
        headers.update(_read_headers(cast("Mapping[str, str]", own_headers)))
    return headers


def follow_redirect(request: HttpRequest, status: int, location: str) -> HttpRequest:
    """Return the request to which a response redirects. Raises ToolError for a redirect from https to http."""
    # Some services do not encode special characters in the header Location.
    target = read_url(quote(location.encode("latin-1"), safe=punctuation), base=str(request.url))
    if request.url.scheme == "https" and target.scheme == "http":
        raise ToolError(f"{request.url.host!r} redirects from https to http, which is not followed.")
    headers = dict(request.headers)
    if target.origin != request.url.origin:
        headers = {name: value for name, value in headers.items() if name in _CROSS_ORIGIN_HEADERS}
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        headers.pop("content-type", None)
        method = "HEAD" if request.method == "HEAD" else "GET"
        return HttpRequest(method, target, headers)
    return replace(request, url=target, headers=headers)


def _read_text(request: HttpRequest, response: WholeResponse, credentials: Credentials) -> str:
    if response.status >= 400:
        raise _make_http_error(request, response, credentials)
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ToolError(f"{request.url.host!r} sent a compressed response, although the request excluded compression.")
    try:
        return response.body.decode(_read_charset(response))
    except UnicodeDecodeError:
        content_type = response.headers.get("content-type", "an unknown type")
        raise ToolError(f"{request.url.host!r} responded with {content_type[:80]}, which is not text.") from None


def _read_charset(response: WholeResponse) -> str:
    """Return the charset of a response if it is supported, else UTF-8."""
    name = response.headers.get("content-type", "").lower().partition("charset=")[2].split(";")[0].strip(" \"'")
    try:
        charset = codecs.lookup(name).name if name else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return charset if charset in _CHARSETS else "utf-8"


def _make_http_error(request: HttpRequest, response: WholeResponse, credentials: Credentials) -> HttpError:
    reason = HTTPStatus(response.status).phrase if response.status in HTTPStatus._value2member_map_ else ""
    # Secrets are masked before truncation, because part of a secret would not be recognized.
    body = credentials.hidden_in(response.body.decode(_read_charset(response), errors="replace")).strip()[:_QUOTE_LIMIT]
    is_temporary = response.status == 429 or response.status >= 500
    wait = retry_after(response.headers, datetime.now(UTC)) if is_temporary else None
    summary = f"{request.method} to {request.url.host!r} failed with {response.status} {reason}".rstrip()
    return HttpError(f"{summary}{f': {body}' if body else '.'}", status=response.status, retry_after=wait)
