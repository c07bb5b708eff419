"""A connection without a network, with scripted outcomes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from statewright.client.call import Call, Reply
from statewright.client.clients import SyncConnection
from statewright.client.settings import ClientSettings


class ScriptedConnection(SyncConnection):
    """Answers requests, streams and reads from a list of outcomes; exceptions are raised, and b"" ends a stream."""

    def __init__(self, *outcomes: Any, settings: ClientSettings | None = None) -> None:
        super().__init__(None, settings or ClientSettings())
        self.outcomes = list(outcomes)
        self.calls: list[Call[Any]] = []
        self.opened: list[str | None] = []
        """The last event ids with which streams were opened."""
        self.open_streams = 0
        self.pauses: list[float] = []
        self.before_reading: Callable[[], object] = lambda: None

    def _next(self) -> Any:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def send(self, call: Call[Any]) -> Reply:
        self.calls.append(call)
        return self._next()

    @asynccontextmanager
    async def stream(
        self, call: Call[Any], last_event_id: str | None = None
    ) -> AsyncGenerator[tuple[Reply, AsyncIterator[bytes]]]:
        self.opened.append(last_event_id)
        head = self._next()
        self.open_streams += 1
        try:
            yield head, self._read_pieces()
        finally:
            self.open_streams -= 1

    async def _read_pieces(self) -> AsyncIterator[bytes]:
        while True:
            self.before_reading()
            piece = self._next()
            if not piece:
                return
            yield piece

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
