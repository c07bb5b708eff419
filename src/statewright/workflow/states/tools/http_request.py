"""The built-in tool that asks services over HTTP.

Every hop of a redirect is checked like the first. Credentials go to the origin of their integration and nowhere else.
Proxies of the environment are not used: they would look up names after the check.
"""

from __future__ import annotations

import base64
import codecs
import json as json_
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from string import punctuation
from typing import Any, Final, cast
from urllib.parse import quote

from statewright.agents import Credentials, HttpError, ToolContext
from statewright.errors import ToolError
from statewright.workflow.states.tools.connection import Answer, Request, exchange
from statewright.workflow.states.tools.guard import Guard, Url, read_url
from statewright.workflow.states.tools.settings import ToolSettings

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REDIRECTS: Final = 5
_REDIRECTING: Final = (301, 302, 303, 307, 308)
_TOLD_ELSEWHERE: Final = frozenset(["accept", "accept-language", "accept-encoding", "content-type", "user-agent"])
"""Headers that another origin is sent too."""
_OURS: Final = frozenset(["host", "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade"])
_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_ABSOLUTE: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)
_CHARSETS: Final = frozenset(["utf-8", "ascii", "iso8859-1", "cp1252", "utf-16", "iso8859-15"])
_QUOTED: Final = 300
"""Characters of an answer that an error quotes."""


class HttpRequests:
    """Asks the hosts that a project allows."""

    def __init__(self, settings: ToolSettings) -> None:
        self._guard = Guard(settings.allow_hosts)
        self._limit = settings.response_limit
        self._seconds = settings.http_seconds

    def http_request(
        self,
        url: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        json: Any = None,
        text: str | None = None,
        *,
        context: ToolContext,
    ) -> str:
        """Ask a service over HTTP, and answer with the text that it sends.

        Args:
            url: The address, or with an integration a path below its own.
            method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
            headers: Headers to send.
            json: A value to send as JSON.
            text: A text to send.
        """
        request, guard = self._first(url, method, headers or {}, _body(json, text), context.credentials)
        until = time.monotonic() + self._seconds
        for _ in range(REDIRECTS + 1):
            answer = exchange(request, guard.addresses(request.url), until=until, limit=self._limit)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTING or location is None:
                return _text_of(request, answer, context.credentials)
            request = redirected(request, answer.status, location)
        raise ToolError(f"{request.url.host!r} has redirected the request {REDIRECTS} times. Ask where it leads to.")

    def _first(
        self, url: str, method: str, headers: Mapping[str, str], body: _Body, credentials: Credentials
    ) -> tuple[Request, Guard]:
        base = _base_of(credentials)
        place = _address(base, url)
        guard = self._guard
        if base is not None:
            if place.origin != base.origin:
                raise ToolError(
                    f"Integration {credentials.alias!r} is for {base.scheme}://{base.host}, and was used to ask "
                    f"{place.host!r}. Use it for its own host, or ask without it."
                )
            guard = guard.with_origin(base)
        sent = {"accept": "*/*", "user-agent": "statewright", "accept-encoding": "identity"}
        sent.update(_headers(headers), **_content_type(headers, body))
        sent.update(_authorization(credentials))
        return Request(_method(method), place, sent, body[0]), guard


_Body = tuple[bytes | None, str | None]
"""What is sent, and as what."""


def _body(json: Any, text: str | None) -> _Body:
    if json is not None and text is not None:
        raise ToolError("A request was given both json and text. Give one of them.")
    if json is not None:
        return json_.dumps(json, ensure_ascii=False).encode(errors="replace"), "application/json"
    return (None, None) if text is None else (text.encode(errors="replace"), "text/plain; charset=utf-8")


def _address(base: Url | None, url: str) -> Url:
    """What is asked for; with the address of an integration, a path counts from there."""
    if base is None:
        return read_url(url)
    return read_url(url if _ABSOLUTE.match(url) else url.lstrip("/"), base=f"{base}".rstrip("/") + "/")


def _method(method: str) -> str:
    if method.upper() not in METHODS:
        raise ToolError(f"{method[:40]!r} is no method of HTTP. Methods: {', '.join(METHODS)}.")
    return method.upper()


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    headers = {str(name).lower(): str(value) for name, value in given.items()}
    for name in headers:
        if not _HEADER.fullmatch(name):
            raise ToolError(f"{name[:80]!r} is no name of a header. Write it with letters and dashes.")
        if name in _OURS:
            raise ToolError(f"The header {name!r} is not for tools to set. Leave it out.")
    return headers


def _content_type(headers: Mapping[str, str], body: _Body) -> dict[str, str]:
    is_said = any(str(name).lower() == "content-type" for name in headers)
    return {} if is_said or body[1] is None else {"content-type": body[1]}


def _base_of(credentials: Credentials) -> Url | None:
    """The origin of an integration. Raises ToolError if it has none: credentials are for somebody."""
    if not credentials:
        return None
    written = credentials.get("base_url", credentials.get("url"))
    if not isinstance(written, str):
        raise ToolError(
            f"Integration {credentials.alias!r} does not say which service it is for. Give it a base_url in "
            f"statewright.toml."
        )
    return read_url(written)


def _authorization(credentials: Credentials) -> dict[str, str]:
    """What an integration adds: a token, a user name with a password, or headers as they are."""
    headers: dict[str, str] = {}
    if "token" in credentials:
        headers["authorization"] = f"Bearer {credentials['token']}"
    elif "username" in credentials and "password" in credentials:
        pair = f"{credentials['username']}:{credentials['password']}"
        encoded = base64.b64encode(pair.encode(errors="replace")).decode()
        credentials.keep_secret(encoded)
        headers["authorization"] = f"Basic {encoded}"
    written: Any = credentials.get("headers")
    if isinstance(written, Mapping):
        headers.update(_headers(cast("Mapping[str, str]", written)))
    return headers


def redirected(request: Request, status: int, location: str) -> Request:
    """The request that a redirect leads to. Raises ToolError for one that leads away from encryption."""
    # Services write letters there that no URL may have.
    place = read_url(quote(location.encode("latin-1"), safe=punctuation), base=str(request.url))
    if request.url.scheme == "https" and place.scheme == "http":
        raise ToolError(f"{request.url.host!r} redirects from https to http, which is not followed.")
    headers = dict(request.headers)
    if place.origin != request.url.origin:
        headers = {name: value for name, value in headers.items() if name in _TOLD_ELSEWHERE}
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        headers.pop("content-type", None)
        method = "HEAD" if request.method == "HEAD" else "GET"
        return Request(method, place, headers)
    return replace(request, url=place, headers=headers)


def _text_of(request: Request, answer: Answer, credentials: Credentials) -> str:
    if answer.status >= 400:
        raise _refused(request, answer, credentials)
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise ToolError(f"{request.url.host!r} sent its answer compressed, though it was asked not to.")
    try:
        return answer.body.decode(_charset(answer))
    except UnicodeDecodeError:
        kind = answer.headers.get("content-type", "an unknown type")
        raise ToolError(f"{request.url.host!r} answered with {kind[:80]}, which is no text.") from None


def _charset(answer: Answer) -> str:
    """The encoding of an answer; of all that Python knows only those that are plain tables."""
    named = answer.headers.get("content-type", "").lower().partition("charset=")[2].split(";")[0].strip(" \"'")
    try:
        found = codecs.lookup(named).name if named else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return found if found in _CHARSETS else "utf-8"


def _refused(request: Request, answer: Answer, credentials: Credentials) -> HttpError:
    reason = HTTPStatus(answer.status).phrase if answer.status in HTTPStatus._value2member_map_ else ""
    # Secrets first: a half of one that was cut off would not be found any more.
    said = credentials.hidden_in(answer.body.decode(_charset(answer), errors="replace")).strip()[:_QUOTED]
    wait = _retry_after(answer.headers.get("retry-after", "")) if answer.status == 429 or answer.status >= 500 else None
    told = f"{request.method} to {request.url.host!r} was answered with {answer.status} {reason}".rstrip()
    return HttpError(f"{told}{f': {said}' if said else '.'}", status=answer.status, retry_after=wait)


def _retry_after(written: str) -> float | None:
    """Seconds, which may be written as the instant at which they are over."""
    if written.isascii() and written.isdigit():
        return float(written[:9])
    try:
        until = parsedate_to_datetime(written)
    except (ValueError, TypeError, IndexError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)
