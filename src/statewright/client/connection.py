"""The I/O of flows by httpx, written once for both clients.

A `Connection` performs the effects of a flow as coroutines. Those of the asynchronous client are awaited. Those of the
synchronous client block instead of suspending, so `complete` gets their result in one step, without an event loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from statewright.client.call import Call, Reply
from statewright.client.flow import ConnectionLost, Effect, Flow, Open, Read, Send, Sleep, Yield, advance
from statewright.client.settings import ClientSettings
from statewright.extras import optional

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
HEARTBEATS: Final = 60.0
"""Seconds of silence after which a stream counts as broken; the service sends a heartbeat every 15 seconds."""


class Connection(ABC):
    """The I/O of one flow: its requests and its open stream."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings
        self._stream: Any = None
        """The response whose content is read as it arrives."""

    async def run(self, flow: Flow[T]) -> T:
        """Perform the effects of a flow and return its result."""
        try:
            effect = next(flow)
            while True:
                effect = advance(flow, await self.perform(effect))
        except StopIteration as end:
            return end.value
        finally:
            await self.close()

    async def next_item(self, flow: Flow[Any]) -> Yield | None:
        """Perform the effects of a flow up to its next item; None at its end."""
        try:
            effect = flow.send(None)
            while not isinstance(effect, Yield):
                effect = advance(flow, await self.perform(effect))
        except StopIteration:
            return None
        return effect

    async def perform(self, effect: Effect) -> Any:
        """Perform an effect and return its outcome; `ConnectionLost` if the connection broke."""
        try:
            return await self._perform(effect)
        except import_httpx().RequestError as error:
            lost = ConnectionLost(describe_failure(error))
            lost.__cause__ = error
            return lost

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Send(call):
                response = await self._send(build_request(self._http, self._settings, call))
                return to_reply(response, response.content)
            case Open(call, last_event_id):
                await self.close()
                request = build_stream(self._http, self._settings, call, last_event_id)
                self._stream = response = await self._send(request, stream=True)
                return to_reply(response, b"" if response.status_code == 200 else await self._read_all())
            case Read():
                return await self._read_piece()
            case Sleep(seconds):
                return await self._sleep(seconds)
            case Yield():
                raise AssertionError("a flow that yields items was run instead of iterated over")

    async def close(self) -> None:
        """Close the stream, if one is open."""
        if self._stream is not None:
            await self._close_stream()
            self._stream = None

    @abstractmethod
    async def _send(self, request: Any, *, stream: bool = False) -> Any:
        """Send a request and return the response, whose content is not read yet if it is a stream."""

    @abstractmethod
    async def _read_all(self) -> bytes:
        """Return the whole content of the stream."""

    @abstractmethod
    async def _read_piece(self) -> bytes:
        """Return the next bytes of the stream; none at its end."""

    @abstractmethod
    async def _close_stream(self) -> None: ...

    @abstractmethod
    async def _sleep(self, seconds: float) -> None: ...


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a blocking connection has suspended")


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
