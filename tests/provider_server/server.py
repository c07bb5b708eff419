"""The server: an event loop on its own thread, with one script for all clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.provider_server.answer import Answer, Failure, Reply
from tests.provider_server.connection import Connection
from tests.provider_server.strict import refusal
from tests.stream_server import listening


@dataclass
class Request:
    """A received request."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: Any
    streamed: bool
    disconnected: threading.Event = field(default_factory=threading.Event)
    """Set if the client disconnects before it has its response."""


Scripted = str | Reply | Callable[[Request], "str | Reply"]
"""Text, an answer or a failure, or a function that returns one of these for a request."""


class ProviderServer:
    """Answers the requests of all clients in the order of its script, and with status 500 after its end.

    `repeat_last` repeats the last answer for all further requests. A `strict` server rejects the requests that the
    provider of the endpoint rejects, see `strict.py`. Use it in a `with` block.
    """

    def __init__(
        self, script: Iterable[Scripted] = (), *, port: int = 0, repeat_last: bool = False, strict: bool = False
    ) -> None:
        self._strict = strict
        self.requests: list[Request] = []
        self.connections = 0
        """The number of open connections."""
        self._script = list(script)
        self._next = 0
        self._port = port
        self._repeat_last = repeat_last
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="provider-server", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients of Anthropic and Google."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def openai_url(self) -> str:
        """The base URL for clients of OpenAI."""
        return f"{self.url}/v1"

    def script(self, script: Iterable[Scripted]) -> None:
        """Replace the script."""
        with self._lock:
            self._script, self._next = list(script), 0

    def reply(self, request: Request) -> Reply:
        """Return the reply to a request, and record the request."""
        with self._lock:
            self.requests.append(request)
            if self._strict and (reason := refusal(request.path, request.body)) is not None:
                return Failure(400, reason, kind="invalid_request_error")
            number, self._next = self._next, self._next + 1
            if number >= len(self._script) and not (self._repeat_last and self._script):
                return Failure(500, f"the script has {len(self._script)} answers, and this is request {number + 1}")
            scripted = self._script[min(number, len(self._script) - 1)]
        answer = scripted(request) if callable(scripted) else scripted
        return Answer(answer) if isinstance(answer, str) else answer

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(600):
            raise RuntimeError("The server did not start in time.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(600)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        async with listening(self._connected, port=self._port) as self._port:
            self._ready.set()
            await self._stop.wait()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await Connection(reader, writer, self.reply, Request).serve()
        finally:
            self.connections -= 1
