"""Connection limits: slow and idle connections are closed, and so are connections above the maximum number.

uvicorn only has a timeout between two requests. A client that sends the head of a request byte by byte, stops in the
middle of a body, or does not read the response would keep its connection forever, and a few thousand such clients would
lock out all others. So each connection has two timers: one for receiving the head or the body of a request, and one for
a response that the client does not read.
"""

from __future__ import annotations

import asyncio
from asyncio.events import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from statewright.server.http.encode import encode
from statewright.server.settings import ServerSettings

_TOO_SLOW: Final = (408, "Request Timeout", "REQUEST_TIMEOUT", "The request did not arrive in time. Send it again.")
_TOO_MANY: Final = (503, "Service Unavailable", "UNAVAILABLE", "Too many connections are open. Try again later.")
"""Status, reason phrase, error code and message of a response to a rejected connection."""


def limited_protocol(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """Return a protocol class that enforces the limits in the settings, for `uvicorn.Config(http=...)`."""

    class ConfiguredProtocol(LimitedProtocol):
        limits = settings

    return ConfiguredProtocol


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with a timer for reading the request and one for writing the response."""

    limits: ServerSettings

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._read_timer: TimerHandle | None = None
        self._write_timer: TimerHandle | None = None

    # -- the life of a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._reject(*_TOO_MANY)
        else:
            self._start_read_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_read_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    # -- requests

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = self.cycle
        is_idle = self.timeout_keep_alive_task is None and (cycle is None or cycle.response_complete)
        if is_idle and self._read_timer is None and not self.transport.is_closing():
            # The data, e.g. an empty line, has ended uvicorn's keep-alive timeout without starting a request.
            self._start_read_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_read_timer()

    def on_headers_complete(self) -> None:
        self._start_read_timer()  # the body gets the same time again
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_read_timer()
        super().on_message_complete()

    def _start_read_timer(self) -> None:
        self._stop_read_timer()
        self._read_timer = self.loop.call_later(self.limits.read_timeout, self._on_read_timeout)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _on_read_timeout(self) -> None:
        self._read_timer = None
        cycle: Any = self.cycle  # None before the first request
        if self.flow.read_paused:  # the server itself has stopped reading, so the client is not slow
            self._start_read_timer()
        elif cycle is None or cycle.response_complete or not cycle.response_started:
            self._reject(*_TOO_SLOW)
        else:  # a response is under way, so no error response can be sent
            self.transport.abort()

    # -- responses

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.write_timeout, self._on_write_timeout)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _on_write_timeout(self) -> None:
        self._write_timer = None
        self.transport.abort()  # close() would wait for the client to read the rest

    # -- closing a connection

    def _reject(self, status: int, phrase: str, code: str, message: str) -> None:
        """Send an error response in the standard envelope and close the connection."""
        if self.transport.is_closing():
            return
        body = encode({"success": False, "error": {"code": code, "message": message, "details": None}})
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"retry-after: 1\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
