"""One HTTP exchange with addresses that were checked before.

The host is resolved and all of its addresses are checked by the caller, once, and the connection goes to one of these
addresses, so DNS rebinding has no effect. Certificates are still verified for the host's name. Redirects are not
followed, because their targets are unchecked. Proxies of the environment are not used: they would resolve names again.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

from statewright.extras import optional
from statewright.http.url import Url, url_host

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. Header names and values are restricted to Latin-1."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpResponse:
    """A response, whose body has not been read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers.raw}
        """By lower-case names."""

    async def read(self, limit: int) -> bytes:
        """Return the body without decompressing it; only the first part of a body that is longer than `limit` bytes.

        That part is longer than `limit`, too, by which the caller recognises it.
        """
        body = bytearray()
        with _network_errors():
            async for part in self._response.aiter_raw():
                body += part
                if len(body) > limit:
                    break
        return bytes(body)


class CertificateError(ConnectionError):
    """The certificate of a server cannot be trusted."""


@asynccontextmanager
async def send(
    request: HttpRequest, addresses: Sequence[str], *, certificates: ssl.SSLContext, timeout: float
) -> AsyncGenerator[HttpResponse]:
    """Send a request to the first address that accepts a connection, on a connection of its own.

    `timeout` limits connecting, in seconds for all addresses together; limit the exchange by `asyncio.timeout`.
    Raises ValueError for a request that cannot be sent, TimeoutError, CertificateError, and ConnectionError.
    """
    async with _httpx().AsyncHTTPTransport(verify=certificates) as transport:
        with _network_errors():
            response = await _first_response(transport, request, addresses, timeout / len(addresses))
        try:
            yield HttpResponse(response)
        finally:
            await response.aclose()


async def _first_response(
    transport: httpx.AsyncHTTPTransport, request: HttpRequest, addresses: Sequence[str], timeout: float
) -> httpx.Response:
    httpx = _httpx()
    *others, last = addresses
    for address in others:
        with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent, so the next one may be tried
            return await transport.handle_async_request(_request_to(address, request, timeout))
    return await transport.handle_async_request(_request_to(last, request, timeout))


def _request_to(address: str, request: HttpRequest, timeout: float) -> httpx.Request:
    url = request.url
    headers = {**request.headers, "host": url.authority, "connection": "close"}
    return _httpx().Request(
        request.method,
        f"{url.scheme}://{url_host(address)}:{url.port}{url.target}",
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        content=request.body,
        extensions={
            "sni_hostname": url.host,
            "target": url.target.encode("ascii"),  # as written: httpx would normalize it
            "timeout": {"connect": timeout},
        },
    )


@contextmanager
def _network_errors() -> Generator[None]:
    """Convert the errors of the library to built-in ones."""
    httpx = _httpx()
    try:
        yield
    except (httpx.InvalidURL, httpx.LocalProtocolError, httpx.UnsupportedProtocol) as error:
        raise ValueError(str(error)) from error
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except (httpx.HTTPError, OSError) as error:
        untrusted = _certificate_error(error)
        if untrusted is not None:
            raise CertificateError(f"certificate verify failed: {untrusted.verify_message}") from error
        raise ConnectionError(f"{type(error).__name__}{f': {error}' if str(error) else ''}") from error


def _certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def default_certificates() -> ssl.SSLContext:
    """Return a context that trusts the usual authorities, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`."""
    return _httpx().create_ssl_context()


def _httpx() -> Any:
    with optional("HTTP requests need", extra="server"):
        import httpx
    return httpx


# -- the header Retry-After (RFC 9110, section 10.2.3)


class Headers(Protocol):
    """Response headers by lower-case names."""

    def get(self, name: str, /) -> object: ...


def retry_after(headers: Headers | Mapping[str, object], now: datetime) -> float | None:
    """Return the seconds to wait from `now`; None without the header. Some services send `retry-after-ms` instead."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    value = headers.get("retry-after") or headers.get("Retry-After")
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now)


def _number(value: object) -> float | None:
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _until(value: object, now: datetime) -> float | None:
    """Return the seconds until an HTTP date."""
    try:
        date = parsedate_to_datetime(str(value))
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
