"""The I/O of both clients, with httpx.

The I/O methods of a `Connection` are coroutines. In the asynchronous client, they suspend the caller's task. In the
synchronous client, they block instead of suspending, so that `complete` gets their result in one step, without an event
loop. Therefore everything that is built on them (retries, pages, resumed streams) is written once, as ordinary
coroutines.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from statewright.client.call import Call, Reply
from statewright.client.settings import ClientSettings
from statewright.extras import optional

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
HEARTBEAT_TIMEOUT: Final = 60.0
"""Seconds without data after which a stream is considered broken. The service sends a heartbeat every 15 seconds."""


class ConnectionLost(Exception):
    """A connection cannot be opened, or was lost. Internal to the client."""


class Connection(ABC):
    """Sends requests, opens streams and waits, for one client."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self.settings = settings

    async def send(self, call: Call[Any]) -> Reply:
        """Send a request and return the response. Raises ConnectionLost."""
        with _convert_errors():
            response = await self.send_request(build_request(self._http, self.settings, call))
            return to_reply(response, response.content)

    def stream(self, call: Call[Any], last_event_id: str | None = None) -> Stream:
        """Return a stream, which `async with` opens and closes. It resumes after the event with `last_event_id`."""
        return Stream(self, build_stream_request(self._http, self.settings, call, last_event_id))

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a coroutine, or the coroutine for the caller to await."""

    @abstractmethod
    def iterate(self, items: AsyncGenerator[Any]) -> Any:
        """Return a generator of the items, or the asynchronous generator itself."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds."""

    @abstractmethod
    async def send_request(self, request: Any, *, stream: bool = False) -> Any:
        """Send an httpx request and return the response. With `stream`, the content of the response is not read yet."""

    @abstractmethod
    async def read_content(self, response: Any) -> bytes:
        """Return the whole content of a stream."""

    @abstractmethod
    def iter_content(self, response: Any) -> Any:
        """Return an iterator over the pieces of a stream, for `next_piece`."""

    @abstractmethod
    async def next_piece(self, pieces: Any) -> bytes | None:
        """Return the next piece of a stream; None at its end."""

    @abstractmethod
    async def close_response(self, response: Any) -> None:
        """Close a stream."""


class Stream:
    """A stream of bytes. `async with` opens it, and returns its head and an iterator over its pieces.

    The head has content only if the response is an error. Opening the stream, and reading each piece, raises
    ConnectionLost. The iterator is an object instead of an asynchronous generator, because when an event loop ends, it
    closes all its asynchronous generators concurrently, even if one of them is iterating over another.
    """

    def __init__(self, connection: Connection, request: Any) -> None:
        self._connection = connection
        self._request = request

    async def __aenter__(self) -> tuple[Reply, AsyncIterator[bytes]]:
        connection = self._connection
        with _convert_errors():
            response = self._response = await connection.send_request(self._request, stream=True)
            try:
                content = b"" if response.status_code == 200 else await connection.read_content(response)
            except BaseException:
                await connection.close_response(response)
                raise
        self._pieces = connection.iter_content(response)
        return to_reply(response, content), self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close_response(self._response)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with _convert_errors():
            piece = await self._connection.next_piece(self._pieces)
        if piece is None:
            raise StopAsyncIteration
        return piece


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends.

    If an event loop is running on this thread, its hooks would register the asynchronous generators that start here,
    and the loop would close them when it ends, although they do not belong to it. So the hooks are removed while the
    coroutine runs.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    finally:
        sys.set_asyncgen_hooks(*hooks)
    raise AssertionError("a blocking connection has suspended")


@contextmanager
def _convert_errors() -> Generator[None]:
    """Raise ConnectionLost for the connection errors of httpx."""
    try:
        yield
    except import_httpx().RequestError as error:
        raise ConnectionLost(describe_failure(error)) from error


# -- httpx requests and responses


def import_httpx() -> Any:
    """Import httpx. Raises MissingLibrary without the extra `client`."""
    with optional("The client needs", extra="client"):
        import httpx
    return httpx


def build_request(
    http: Any, settings: ClientSettings, call: Call[Any], extra_headers: dict[str, str] | None = None
) -> Any:
    """Build an httpx request with the synchronous or asynchronous httpx client `http`."""
    return http.build_request(
        call.method,
        settings.base_url.rstrip("/") + call.path,
        params=list(call.params),
        content=call.body,
        headers={**request_headers(settings, call), **(extra_headers or {})},
        timeout=settings.timeout + call.max_wait,
    )


def build_stream_request(http: Any, settings: ClientSettings, call: Call[Any], last_event_id: str | None) -> Any:
    """Build an httpx request for a stream, with a read timeout that is longer than the interval between heartbeats."""
    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    if last_event_id is not None:
        headers["last-event-id"] = last_event_id
    request = build_request(http, settings, call, headers)
    request.extensions["timeout"] = {**request.extensions["timeout"], "read": HEARTBEAT_TIMEOUT}
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
    """Convert an httpx response to a `Reply`."""
    return Reply(status=response.status_code, headers=dict(response.headers), content=content)


def describe_failure(error: Exception) -> str:
    """Return the type of a connection error, and its message if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
