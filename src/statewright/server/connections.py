"""Limits of connections: slow, idle and excessive ones are closed.

uvicorn has only a timeout between two requests. A client that sends the head of a request byte by byte, stops in the
middle of a body, or does not read the response, would keep its connection for ever; a few thousand of them would block
all other clients."""

from __future__ import annotations

import asyncio
from asyncio.events import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from statewright.server.http.encode import encode
from statewright.server.settings import ServerSettings

_TOO_SLOW: Final = (408, "Request Timeout", "REQUEST_TIMEOUT", "The request was not sent in time. Send it again.")
_TOO_MANY: Final = (503, "Service Unavailable", "UNAVAILABLE", "Too many connections are open. Try again later.")


def protocol_for(settings: ServerSettings) -> type[HttpToolsProtocol]:
    """Return a protocol class with the limits of these settings, for `uvicorn.Config(http=...)`."""

    class Limited(LimitedProtocol):
        limits = settings

    return Limited


class LimitedProtocol(HttpToolsProtocol):
    """One connection, with a timer for what the client has to do next."""

    limits: ServerSettings

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reading: TimerHandle | None = None
        self._writing: TimerHandle | None = None

    # -- the life of a connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            self._refuse(*_TOO_MANY)
        else:
            self._await_client()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    # -- what the client sends

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: Any = self.cycle
        is_idle = self.timeout_keep_alive_task is None and (cycle is None or cycle.response_complete)
        if is_idle and self._reading is None and not self.transport.is_closing():
            self._await_client()  # what came ended the idle time and began no request, such as an empty line

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_client()

    def on_headers_complete(self) -> None:
        self._await_client()  # the body has as long again
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._has_sent()
        super().on_message_complete()

    def _await_client(self) -> None:
        self._has_sent()
        self._reading = self.loop.call_later(self.limits.read_timeout, self._give_up_reading)

    def _has_sent(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _give_up_reading(self) -> None:
        self._reading = None
        cycle: Any = self.cycle  # None before the first request
        if self.flow.read_paused:  # the server has not taken what was sent: the client is not to blame
            self._await_client()
        elif cycle is None or cycle.response_complete or not cycle.response_started:
            self._refuse(*_TOO_SLOW)
        else:  # an answer has begun: nothing can be said any more
            self.transport.abort()

    # -- what the client takes

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(self.limits.write_timeout, self._give_up_writing)

    def resume_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        super().resume_writing()

    def _give_up_writing(self) -> None:
        self._writing = None
        self.transport.abort()  # close() would wait until the client has taken what is left

    # -- parts of these

    def _stop_timers(self) -> None:
        self._has_sent()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _refuse(self, status: int, phrase: str, code: str, message: str) -> None:
        """Answer in the envelope of all errors, and close the connection."""
        if self.transport.is_closing():
            return
        body = encode({"success": False, "error": {"code": code, "message": message, "details": None}})
        head = (
            f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"retry-after: 1\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()
