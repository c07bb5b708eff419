"""The I/O of a client by httpx, written once for both clients.

A `Connection` is made of coroutines. Those of the asynchronous client are awaited. Those of the synchronous client
block instead of suspending, so `complete` gets their result in one step, without an event loop. All that is built on
them (retries, pages, streams that are resumed) is therefore written only once, as ordinary coroutines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from statewright.client.call import Call, Reply
from statewright.client.settings import ClientSettings
from statewright.extras import optional

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
HEARTBEATS: Final = 60.0
"""Seconds of silence after which a stream counts as broken; the service sends a heartbeat every 15 seconds."""


class ConnectionLost(Exception):
    """A connection could not be opened, or broke. Internal to the client."""


class Connection(ABC):
    """The requests, streams and pauses of a client."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self.settings = settings

    async def send(self, call: Call[Any]) -> Reply:
        """Send a request and return the response. Raises ConnectionLost."""
        with _connection_errors():
            response = await self._send(build_request(self._http, self.settings, call))
            return to_reply(response, response.content)

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], last_event_id: str | None = None
    ) -> AsyncGenerator[tuple[Reply, AsyncIterator[bytes]]]:
        """Open a stream: its head, which has content only if it is an error, and its bytes as they arrive.

        Raises ConnectionLost, also while the bytes are read.
        """
        with _connection_errors():
            response = await self._send(build_stream(self._http, self.settings, call, last_event_id), stream=True)
            try:
                content = b"" if response.status_code == 200 else await self._read(response)
                yield to_reply(response, content), self._pieces(response)
            finally:
                await self._close(response)

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a method to its caller, or an awaitable of it."""

    @abstractmethod
    def iterate(self, items: AsyncGenerator[Any]) -> Any:
        """Return an iterator over items to the caller of a method, or an asynchronous one."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def _send(self, request: Any, *, stream: bool = False) -> Any:
        """Send a request and return the response, whose content is not read yet if it is a stream."""

    @abstractmethod
    async def _read(self, response: Any) -> bytes:
        """Return the whole content of a stream."""

    @abstractmethod
    def _pieces(self, response: Any) -> AsyncIterator[bytes]:
        """Iterate over the content of a stream as it arrives."""

    @abstractmethod
    async def _close(self, response: Any) -> None:
        """Close a stream."""


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a blocking connection has suspended")


@contextmanager
def _connection_errors() -> Generator[None]:
    """Raise ConnectionLost for what httpx raises if a connection cannot be opened, or breaks."""
    try:
        yield
    except import_httpx().RequestError as error:
        raise ConnectionLost(describe_failure(error)) from error


# -- requests and responses of httpx


def import_httpx() -> Any:
    """Import httpx. Raises MissingLibrary without the extra `client`."""
    with optional("The client needs", extra="client"):
        import httpx
    return httpx


def build_request(http: Any, settings: ClientSettings, call: Call[Any], extra: dict[str, str] | None = None) -> Any:
    """Build a request with a synchronous or asynchronous httpx client."""
    return http.build_request(
        call.method,
        settings.base_url.rstrip("/") + call.path,
        params=list(call.params),
        content=call.body,
        headers={**request_headers(settings, call), **(extra or {})},
        timeout=settings.timeout + call.patience,
    )


def build_stream(http: Any, settings: ClientSettings, call: Call[Any], last_event_id: str | None) -> Any:
    """Build a request for a stream, with a longer read timeout."""
    extra = {"accept": "text/event-stream", "cache-control": "no-store"}
    if last_event_id is not None:
        extra["last-event-id"] = last_event_id
    request = build_request(http, settings, call, extra)
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": HEARTBEATS}
    return request


def request_headers(settings: ClientSettings, call: Call[Any]) -> dict[str, str]:
    """Return the headers of a request: credentials and content types."""
    headers = {"accept": "application/json"}
    if call.body is not None:
        headers["content-type"] = "application/json"
    if call.as_operator and settings.admin_token is not None:
        headers["x-admin-token"] = settings.admin_token
    elif settings.api_key is not None:
        headers["x-api-key"] = settings.api_key
    return headers


def to_reply(response: httpx.Response, content: bytes = b"") -> Reply:
    """Return a response of httpx as a `Reply`."""
    return Reply(status=response.status_code, headers=dict(response.headers), content=content)


def describe_failure(error: Exception) -> str:
    """Return the type and the message of a connection error; some errors of httpx have no message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
