"""One HTTP exchange with a host whose IP addresses were checked beforehand.

The caller resolves the host once and checks its addresses, and the connection goes to one of these addresses. So DNS
rebinding has no effect. Certificates are still verified for the host name. Redirects are not followed, because their
targets were not checked. Proxies from the environment are ignored, because they would resolve the name again.
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
    """A request. The names and values of headers must be Latin-1."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpResponse:
    """A response whose body has not been read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers.raw}
        """Headers by lower-case name."""

    async def read(self, limit: int) -> bytes:
        """Return the body without decompressing it, or only its beginning if it is longer than `limit` bytes.

        The result then has more than `limit` bytes, so that the caller can tell that the body was too long.
        """
        body = bytearray()
        with _convert_network_errors():
            async for chunk in self._response.aiter_raw():
                body += chunk
                if len(body) > limit:
                    break
        return bytes(body)


class CertificateError(ConnectionError):
    """The certificate of a server is not trusted."""


@asynccontextmanager
async def send(
    request: HttpRequest, addresses: Sequence[str], *, certificates: ssl.SSLContext, timeout: float
) -> AsyncGenerator[HttpResponse]:
    """Send a request to the first address that accepts a connection. The connection is not reused.

    `timeout` is the maximum number of seconds to connect, for all addresses together. Use `asyncio.timeout` to limit
    the whole exchange. Raises ValueError for a request that cannot be sent, TimeoutError, CertificateError and
    ConnectionError.
    """
    async with _import_httpx().AsyncHTTPTransport(verify=certificates) as transport:
        with _convert_network_errors():
            response = await _send_to_first(transport, request, addresses, timeout / len(addresses))
        try:
            yield HttpResponse(response)
        finally:
            await response.aclose()


async def _send_to_first(
    transport: httpx.AsyncHTTPTransport, request: HttpRequest, addresses: Sequence[str], timeout: float
) -> httpx.Response:
    httpx = _import_httpx()
    *others, last = addresses
    for address in others:
        with suppress(httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent, so the next address can be tried
            return await transport.handle_async_request(_build_request(address, request, timeout))
    return await transport.handle_async_request(_build_request(last, request, timeout))


def _build_request(address: str, request: HttpRequest, timeout: float) -> httpx.Request:
    url = request.url
    headers = {**request.headers, "host": url.authority, "connection": "close"}
    return _import_httpx().Request(
        request.method,
        f"{url.scheme}://{url_host(address)}:{url.port}{url.target}",
        headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        content=request.body,
        extensions={
            "sni_hostname": url.host,
            "target": url.target.encode("ascii"),  # httpx would normalize the target in the URL
            "timeout": {"connect": timeout},
        },
    )


@contextmanager
def _convert_network_errors() -> Generator[None]:
    """Convert the errors of httpx to built-in exceptions and CertificateError."""
    httpx = _import_httpx()
    try:
        yield
    except (httpx.InvalidURL, httpx.LocalProtocolError, httpx.UnsupportedProtocol) as error:
        raise ValueError(str(error)) from error
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except (httpx.HTTPError, OSError) as error:
        certificate_error = _find_certificate_error(error)
        if certificate_error is not None:
            raise CertificateError(f"certificate verify failed: {certificate_error.verify_message}") from error
        raise ConnectionError(f"{type(error).__name__}{f': {error}' if str(error) else ''}") from error


def _find_certificate_error(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    """Return the first certificate error among an error and its causes; None if there is none."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error


def default_certificates() -> ssl.SSLContext:
    """Return a context that trusts the usual authorities, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`."""
    return _import_httpx().create_ssl_context()


def _import_httpx() -> Any:
    with optional("HTTP requests need", extra="server"):
        import httpx
    return httpx


# -- the header Retry-After (RFC 9110, section 10.2.3)


class Headers(Protocol):
    """The headers of a response, such as a mapping or another object with a method `get`."""

    def get(self, name: str, /) -> object: ...


def retry_after(headers: Headers | Mapping[str, object], now: datetime) -> float | None:
    """Return the number of seconds to wait from `now`; None if there is no valid header."""
    milliseconds = _parse_number(headers.get("retry-after-ms"))  # sent by some providers of models
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after") or headers.get("Retry-After")  # a plain mapping distinguishes case
    seconds = _parse_number(value)
    return seconds if seconds is not None else _seconds_until(value, now)


def _parse_number(value: object) -> float | None:
    """Parse a finite number that is not negative; return None for any other value."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _seconds_until(value: object, now: datetime) -> float | None:
    """Return the seconds from `now` until an HTTP date; None for any other value."""
    try:
        date = parsedate_to_datetime(str(value))
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None
