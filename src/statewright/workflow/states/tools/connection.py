"""One exchange over HTTP with an address that was checked before, within a time and a size."""

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
class Request:
    """What is sent."""

    method: str
    url: Url
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """By names in small letters."""
    body: bytes


class _Connection(http.client.HTTPConnection):
    """Connects to given addresses, whatever the name of the host leads to by now."""

    def __init__(self, url: Url, addresses: Sequence[str], until: float) -> None:
        self.default_port = PORTS[url.scheme]
        super().__init__(url.host, url.port)
        self._url = url
        self._addresses = addresses
        self._until = until

    def connect(self) -> None:
        plain = self._connected()
        # The limit on single waits; the one on the whole exchange is that of `_ended_at`.
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


def exchange(request: Request, addresses: Sequence[str], *, until: float, limit: int) -> Answer:
    """The answer to a request; `until` is an instant of the monotonic clock.

    Raises ConnectionError, TimeoutError, and ToolError for what trying again would not change.
    """
    connection = _Connection(request.url, addresses, until)
    try:
        with _ended_at(connection, until):
            answer = _exchanged(connection, request, limit)
        if time.monotonic() >= until:  # the end of what was read is the end of the time, and none of the answer
            raise TimeoutError
        return answer
    except ssl.SSLCertVerificationError as error:
        raise ToolError(f"The certificate of {request.url.host!r} cannot be trusted: {error.verify_message}.") from None
    except (OSError, http.client.HTTPException) as error:
        # However it broke: a socket that was shut at the end of the time breaks in many ways.
        if time.monotonic() >= until or isinstance(error, TimeoutError):
            raise TimeoutError(f"{request.url.host!r} took too long to answer.") from None
        raise ConnectionError(
            f"The connection to {request.url.host!r} broke: {type(error).__name__}: {error}."
        ) from None
    finally:
        connection.close()


def _exchanged(connection: _Connection, request: Request, limit: int) -> Answer:
    try:
        connection.request(request.method, request.url.target, body=request.body, headers=dict(request.headers))
    except ssl.SSLError:  # is a ValueError too
        raise
    except (ValueError, http.client.InvalidURL) as error:
        raise ToolError(f"The request to {request.url.host!r} cannot be sent: {error}.") from None
    response = connection.getresponse()
    body = response.read(limit + 1)
    if len(body) > limit:
        raise ToolError(f"The answer of {request.url.host!r} has more than {limit} bytes. Ask for less of it.")
    if request.method != "HEAD" and response.length:
        raise http.client.IncompleteRead(body, response.length)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, response.reason, headers, body)


@contextmanager
def _ended_at(connection: _Connection, until: float) -> Generator[None]:
    """A service that sends a byte now and then is never too slow for a socket: it is shut when the time is up."""
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
        # Of a plain socket's own method: that of an encrypted one would wait for the other side.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)
