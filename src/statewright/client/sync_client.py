"""The synchronous client."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Self

from statewright.client.flow.effects import Effect, Flow, Lost, Open, Read, Send, Sleep, Yield, advance
from statewright.client.resources.root import Root
from statewright.client.settings import DEFAULT_URL, ClientSettings
from statewright.client.sync_async import Sync
from statewright.client.transport import build, build_stream, library, reason, reply
from statewright.clock import Clock, SystemClock

if TYPE_CHECKING:
    import httpx


class Client(Root[Sync]):
    """Synchronous client of a service. Thread-safe. Close it with `close`, or use it in `with`."""

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        timeout: float = 30.0,
        *,
        admin_token: str | None = None,
        retries: int = 3,
        clock: Clock | None = None,
        transport: httpx.BaseTransport | None = None,
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
        self._http = library().Client(transport=transport)
        super().__init__(BlockingDriver(self._http, settings), settings)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingDriver:
    """Performs the effects of flows on the thread of the caller."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings

    def run(self, flow: Flow[Any]) -> Any:
        connection = _Connection(self._http, self._settings)
        try:
            effect = next(flow)
            while True:
                effect = advance(flow, connection.do(effect))
        except StopIteration as end:
            return end.value
        finally:
            connection.close()

    def iterate(self, flow: Flow[Any]) -> Generator[Any]:
        connection = _Connection(self._http, self._settings)
        try:
            effect = next(flow)
            while True:
                if isinstance(effect, Yield):
                    yield effect.item
                    effect = flow.send(None)
                else:
                    effect = advance(flow, connection.do(effect))
        except StopIteration:
            return
        finally:
            connection.close()


class _Connection:
    """The I/O of one flow: its requests, and its open stream."""

    def __init__(self, http: Any, settings: ClientSettings) -> None:
        self._http = http
        self._settings = settings
        self._stream: Any = None
        self._pieces: Iterator[bytes] = iter(())

    def do(self, effect: Effect) -> Any:
        """Perform an effect and return its outcome; `Lost` if the connection broke."""
        try:
            return self._do(effect)
        except library().RequestError as error:
            lost = Lost(reason(error))
            lost.__cause__ = error
            return lost

    def _do(self, effect: Effect) -> Any:
        match effect:
            case Send(call):
                response = self._http.send(build(self._http, self._settings, call))
                return reply(response, response.content)
            case Open(call, last_event_id):
                return self._open(build_stream(self._http, self._settings, call, last_event_id))
            case Read():
                return next((piece for piece in self._pieces if piece), b"")
            case Sleep(seconds):
                self._settings.clock.wait(threading.Event(), seconds)
                return None
            case Yield():
                raise AssertionError("items are for those who iterate")

    def _open(self, request: Any) -> Any:
        self.close()
        self._stream = response = self._http.send(request, stream=True)
        self._pieces = response.iter_bytes()
        return reply(response, b"" if response.status_code == 200 else response.read())

    def close(self) -> None:
        """Close the stream, if one is open."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
