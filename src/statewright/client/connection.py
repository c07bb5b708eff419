"""The I/O of both clients, by httpx.

The methods of a `Connection` are coroutines. Those of the asynchronous client are awaited. Those of the synchronous
client block instead of suspending, so `complete` gets their result in one step, without an event loop. Everything that
is built on them (retries, pages, resumed streams) is therefore written once, as ordinary coroutines.
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
"""Seconds without data after which a stream counts as broken. The service sends a heartbeat every 15 seconds."""


class ConnectionLost(Exception):
    """A connection cannot be opened, or was lost. Internal to the client."""


class Connection(ABC):
    """Sends requests, opens streams and waits, for one client."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self.settings = settings

    async def send(self, call: Call[Any]) -> Reply:
        """Send a request and return the response. Raises ConnectionLost."""
        with _converted_errors():
            response = await self.send_request(build_request(self._http, self.settings, call))
            return to_reply(response, response.content)

    def stream(self, call: Call[Any], last_event_id: str | None = None) -> Stream:
        """Return a stream, which is opened and closed by `async with`."""
        return Stream(self, build_stream_request(self._http, self.settings, call, last_event_id))

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Return the result of a coroutine, or the coroutine for the caller to await."""

    @abstractmethod
    def iterate(self, items: AsyncGenerator[Any]) -> Any:
        """Return a generator of the items, or the asynchronous generator itself."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def send_request(self, request: Any, *, stream: bool = False) -> Any:
        """Send a request of httpx and return the response. With `stream`, its content is not read yet."""

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

    The head has content only if it is an error. Raises ConnectionLost, also while pieces are read. This is a class
    instead of a generator, because an event loop that ends closes all its generators concurrently, even if one of them
    is suspended in another.
    """

    def __init__(self, connection: Connection, request: Any) -> None:
        self._connection = connection
        self._request = request

    async def __aenter__(self) -> tuple[Reply, AsyncIterator[bytes]]:
        connection = self._connection
        with _converted_errors():
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
        with _converted_errors():
            piece = await self._connection.next_piece(self._pieces)
        if piece is None:
            raise StopAsyncIteration
        return piece


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends.

    An event loop that happens to run on this thread would track asynchronous generators that start here, and close them
    when it ends, although they do not belong to it. So its hooks are removed meanwhile.
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
def _converted_errors() -> Generator[None]:
    """Convert the errors of httpx about connections to ConnectionLost."""
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


def build_request(
    http: Any, settings: ClientSettings, call: Call[Any], extra_headers: dict[str, str] | None = None
) -> Any:
    """Build a request with a synchronous or asynchronous httpx client."""
    return http.build_request(
        call.method,
        settings.base_url.rstrip("/") + call.path,
        params=list(call.params),
        content=call.body,
        headers={**request_headers(settings, call), **(extra_headers or {})},
        timeout=settings.timeout + call.max_wait,
    )


def build_stream_request(http: Any, settings: ClientSettings, call: Call[Any], last_event_id: str | None) -> Any:
    """Build a request for a stream, with a read timeout that is longer than the interval of heartbeats."""
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
    """Convert a response of httpx to a `Reply`."""
    return Reply(status=response.status_code, headers=dict(response.headers), content=content)


def describe_failure(error: Exception) -> str:
    """Return the type of a connection error, and its message if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
