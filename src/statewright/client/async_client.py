"""The asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, Self

from statewright.async_futures import sleep
from statewright.client.flow.effects import Effect, Flow, Lost, Open, Read, Send, Sleep, Yield, advance
from statewright.client.resources.root import Root
from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.client.sync_async import Async
from statewright.client.transport import build, build_stream, library, reason, reply
from statewright.clock import Clock, SystemClock

if TYPE_CHECKING:
    import httpx


class AsyncClient(Root[Async]):
    """Asynchronous client of a service. Close it with `aclose`, or use it in `async with`."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        timeout: float = 30.0,
        *,
        admin_token: str | None = None,
        retries: int = 3,
        clock: Clock | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Raises InvalidConfig for an address that is none, and without the extra `client`."""
        settings = ClientSettings(
            base_url=base_url,
            api_key=api_key,
            admin_token=admin_token,
            timeout=timeout,
            retries=retries,
            clock=clock or SystemClock(),
        )
        self._http = library().AsyncClient(transport=transport)
        super().__init__(AwaitingDriver(self._http, settings), settings)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AwaitingDriver:
    """Performs the effects of flows on the event loop of the caller."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings

    async def run(self, flow: Flow[Any]) -> Any:
        connection = _Connection(self._http, self._settings)
        try:
            effect = next(flow)
            while True:
                effect = advance(flow, await connection.do(effect))
        except StopIteration as end:
            return end.value
        finally:
            await connection.close()

    async def iterate(self, flow: Flow[Any]) -> AsyncGenerator[Any]:
        connection = _Connection(self._http, self._settings)
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Yield):
                    yield effect.item
                    effect = flow.send(None)
                else:
                    effect = advance(flow, await connection.do(effect))
        except StopIteration:
            return
        finally:
            await connection.close()


class _Connection:
    """The I/O of one flow: its requests, and its open stream."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings
        self._stream: Any = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def do(self, effect: Effect) -> Any:
        """Perform an effect and return its outcome; `Lost` if the connection broke."""
        try:
            return await self._do(effect)
        except library().RequestError as error:
            lost = Lost(reason(error))
            lost.__cause__ = error
            return lost

    async def _do(self, effect: Effect) -> Any:
        match effect:
            case Send(call):
                response = await self._http.send(build(self._http, self._settings, call))
                return reply(response, response.content)
            case Open(call, last_event_id):
                return await self._open(build_stream(self._http, self._settings, call, last_event_id))
            case Read():
                return await self._read()
            case Sleep(seconds):
                return await sleep(self._settings.clock, seconds)
            case Yield():
                raise AssertionError("items are for those who iterate")

    async def _open(self, request: Any) -> Any:
        await self.close()
        self._stream = response = await self._http.send(request, stream=True)
        self._pieces = response.aiter_bytes()
        return reply(response, b"" if response.status_code == 200 else await response.aread())

    async def _read(self) -> bytes:
        assert self._pieces is not None
        async for piece in self._pieces:
            if piece:
                return piece
        return b""

    async def close(self) -> None:
        """Close the stream, if one is open."""
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None
