"""The I/O of flows, written once for both clients.

A `Connection` performs the effects of a flow as coroutines. Those of the asynchronous client are awaited. Those of the
synchronous client block instead of suspending, so `complete` gets their result in one step, without an event loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any, TypeVar

from statewright.client.flow.effects import ConnectionLost, Effect, Flow, Open, Read, Send, Sleep, Yield, advance
from statewright.client.settings import ClientSettings
from statewright.client.transport import build_request, build_stream, describe_failure, import_httpx, to_reply

T = TypeVar("T")


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
