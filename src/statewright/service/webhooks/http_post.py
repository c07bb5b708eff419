"""Sending one message to a webhook: a POST to a checked address, and the status of the response.

Redirects are not followed, because they would bypass the check. The body of the response is discarded, and only as much
of it is read as a well-behaved receiver needs to send it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from statewright.errors import InvalidRequest
from statewright.extras import optional
from statewright.http.retry_after import retry_after
from statewright.service.webhooks.address import Target, find_addresses, read_url, url_host
from statewright.service.webhooks.settings import WebhookSettings

if TYPE_CHECKING:
    import httpx

_READ: Final = 65536
"""Bytes of a response that are read at most."""
_READ_SECONDS: Final = 1.0


class Answer(NamedTuple):
    """The response to one try."""

    status: int | None
    """None if there was no answer."""
    error: str | None = None
    """The error; None if the message was delivered."""
    retry_after: float | None = None
    """The receiver's Retry-After in seconds, if it sent one."""


Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[Answer]]
"""Sends a body with headers to a URL. Returns an answer in any case, and never raises."""


class HttpPost:
    """Sends messages over HTTP, each on a connection of its own."""

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings
        self._opened: httpx.AsyncHTTPTransport | None = None

    async def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """POST a message and return the response; disallowed hosts are not contacted."""
        try:
            async with asyncio.timeout(self._settings.timeout):
                target = read_url(url, self._settings)
                addresses = await find_addresses(target, self._settings)
                response = await self._send(target, addresses, body, headers)
        except TimeoutError:
            return Answer(None, f"There was no answer within {self._settings.timeout:g} s.")
        except InvalidRequest as error:
            return Answer(None, str(error))
        if isinstance(response, Answer):
            return response
        await _read_some(response)  # after the limit: a status that has come is not lost to it
        return _answer(response)

    async def close(self) -> None:
        """Close connections. The object can be used again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    async def _send(
        self, target: Target, addresses: Sequence[str], body: bytes, headers: Mapping[str, str]
    ) -> httpx.Response | Answer:
        httpx = _httpx()
        error: Exception | None = None
        for address in addresses:
            request = _request(target, address, body, headers, self._settings.timeout / len(addresses))
            try:
                return await self._transport().handle_async_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as refused:
                error = refused  # nothing was sent: another address may do
            except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as broken:
                return Answer(None, _told(target, broken))
        return Answer(None, _told(target, error))

    def _transport(self) -> httpx.AsyncHTTPTransport:
        opened = self._opened
        if opened is None:
            httpx = _httpx()
            # No connection is used twice: those to one address may belong to two names.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
            certificates: ssl.SSLContext = self._settings.ssl_context or httpx.create_ssl_context()
            opened = self._opened = httpx.AsyncHTTPTransport(verify=certificates, limits=limits)
        return opened


def _request(
    target: Target, address: str, body: bytes, headers: Mapping[str, str], connect_timeout: float
) -> httpx.Request:
    return _httpx().Request(
        "POST",
        f"{target.scheme}://{url_host(address)}:{target.port}{target.rest}",
        headers={**headers, "host": target.authority, "connection": "close"},
        content=body,
        # Certificates are checked for the name, though the connection goes to an address.
        extensions={"sni_hostname": target.host, "timeout": {"connect": connect_timeout}},
    )


def _httpx() -> Any:
    with optional("Webhooks need", extra="server"):
        import httpx
    return httpx


async def _read_some(response: httpx.Response) -> None:
    """Read some of the body, within bounds. The status is known, so errors are ignored."""
    size = 0
    with suppress(TimeoutError, OSError, _httpx().TransportError):
        try:
            async with asyncio.timeout(_READ_SECONDS):
                async for part in response.aiter_raw():
                    size += len(part)
                    if size > _READ:
                        return
        finally:
            await response.aclose()


def _answer(response: httpx.Response) -> Answer:
    status = response.status_code
    if 200 <= status < 300:
        return Answer(status)
    if 300 <= status < 400:
        return Answer(status, f"The receiver answered {status}, and redirects are not followed. Change the URL.")
    return Answer(status, f"The receiver answered {status}.", retry_after(response.headers, datetime.now(UTC)))


def _told(target: Target, error: Exception | None) -> str:
    return f"{target.authority} could not be reached: {type(error).__name__}{f': {error}' if str(error) else ''}"[:500]
