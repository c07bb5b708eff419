"""One HTTP exchange with checked addresses, within limits of time and size."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from statewright.errors import ToolError
from statewright.workflow.states.tools.guard import PORTS, Url


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """By lower-case names."""
    body: bytes


class _Connection(http.client.HTTPConnection):
    """Connects to the checked addresses instead of resolving the host again."""

    def __init__(self, url: Url, addresses: Sequence[str], until: float) -> None:
        self.default_port = PORTS[url.scheme]
        super().__init__(url.host, url.port)
        self._url = url
        self._addresses = addresses
        self._until = until

    def connect(self) -> None:
        plain = self._connected()
        # This limits each wait; `_ended_at` limits the whole exchange.
        plain.settimeout(_left(self._until))
        self.sock = plain
        if self._url.scheme == "https":
            self.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=self._url.host)

    def _connected(self) -> socket.socket:
        last: OSError | None = None
        for address in self._addresses:
            try:
                return socket.create_connection((address, self._url.port), _left(self._until))
            except OSError as error:
                last = error
        assert last is not None
        raise last


def exchange(request: HttpRequest, addresses: Sequence[str], *, until: float, limit: int) -> HttpResponse:
    """Send a request and return the response; `until` is an instant of the monotonic clock.

    Raises ConnectionError, TimeoutError, and ToolError for permanent failures.
    """
    connection = _Connection(request.url, addresses, until)
    try:
        with _ended_at(connection, until):
            answer = _exchanged(connection, request, limit)
        if time.monotonic() >= until:  # the shutdown at the deadline looks like the end of the body
            raise TimeoutError
        return answer
    except ssl.SSLCertVerificationError as error:
        raise ToolError(f"The certificate of {request.url.host!r} cannot be trusted: {error.verify_message}.") from None
    except (OSError, http.client.HTTPException) as error:
        # A socket that was shut down at the deadline fails in many ways.
        if time.monotonic() >= until or isinstance(error, TimeoutError):
            raise TimeoutError(f"{request.url.host!r} took too long to answer.") from None
        raise ConnectionError(
            f"The connection to {request.url.host!r} broke: {type(error).__name__}: {error}."
        ) from None
    finally:
        connection.close()


def _exchanged(connection: _Connection, request: HttpRequest, limit: int) -> HttpResponse:
    try:
        connection.request(request.method, request.url.target, body=request.body, headers=dict(request.headers))
    except ssl.SSLError:  # is a ValueError too
        raise
    except (ValueError, http.client.InvalidURL) as error:
        raise ToolError(f"The request to {request.url.host!r} cannot be sent: {error}.") from None
    response = connection.getresponse()
    body = response.read(limit + 1)
    if len(body) > limit:
        raise ToolError(f"The answer of {request.url.host!r} has more than {limit} bytes. Request less of it.")
    if request.method != "HEAD" and response.length:
        raise http.client.IncompleteRead(body, response.length)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return HttpResponse(response.status, response.reason, headers, body)


@contextmanager
def _ended_at(connection: _Connection, until: float) -> Generator[None]:
    """Shut the socket down at the deadline: a server that sends a byte now and then never exceeds a socket timeout."""
    timer = threading.Timer(_left(until), _shut, (connection,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut(connection: _Connection) -> None:
    sock = connection.sock
    if sock is None:
        return
    try:
        # The plain socket's method, because that of a TLS socket would wait for the peer.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)
