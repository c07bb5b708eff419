"""Following the events of a run: a stream of server-sent events, resumed after the last received one if it breaks."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from statewright.api.resource import LARGEST_PAGE
from statewright.api.runs import ENDED, Event, LiveEvent
from statewright.client.call import Reply, get, path_of, read_data
from statewright.client.connection import Connection, ConnectionLost
from statewright.client.errors import error_of, unreachable
from statewright.client.send import pause_after, send

_STABLE_AFTER: Final = 5.0
"""Seconds after which a connection that ends counts as the first failure again, even if it had no events."""
_BOM: Final = b"\xef\xbb\xbf"


class RunFollower:
    """Follows a run. Every event is yielded once, in order."""

    def __init__(self, run_id: str, after: int, connection: Connection, *, live: bool = False) -> None:
        self._run_id = run_id
        self._last = after
        self._connection = connection
        self._settings = connection.settings
        self._failures = 0
        self._call = get(path_of("workflow-runs", run_id, "stream"), read_data, {"live": True} if live else {})

    async def events(self) -> AsyncGenerator[Any]:
        """Yield the events until the run has ended and all have been received."""
        while True:
            start, pause = self._settings.clock.monotonic(), None
            try:
                async with self._connection.stream(self._call, str(self._last or "") or None) as (head, pieces):
                    if head.status != 200:
                        pause = self._pause_after(head)
                    else:
                        parser = Parser()
                        async for piece in pieces:
                            for message in parser.feed(piece):
                                if (event := self._read_event(message)) is not None:
                                    yield event
            except ConnectionLost as lost:
                self._count_failure(start)
                if self._failures > self._settings.retries:
                    raise unreachable(self._call, self._settings.base_url, lost) from lost.__cause__
                pause = self._settings.pause(self._failures)
            if pause is None:  # the stream has ended
                if await self._has_ended():
                    while events := await self._next_events():
                        for event in events:
                            yield event
                    return
                self._count_failure(start)  # the server is stopping, or a proxy has closed a long stream
                pause = self._settings.pause(min(self._failures, 5))
            await self._connection.sleep(pause)

    def _count_failure(self, start: float) -> None:
        was_stable = self._settings.clock.monotonic() - start > _STABLE_AFTER
        self._failures = 1 if was_stable else self._failures + 1

    def _pause_after(self, refusal: Reply) -> float:
        """Return the seconds until the next try after a refusal. Raises its error if there is none."""
        self._failures += 1
        pause = pause_after(refusal, self._settings, self._failures)
        if pause is None or self._failures > self._settings.retries:
            raise error_of(refusal, self._call)
        return pause

    def _read_event(self, message: Message) -> Event | LiveEvent | None:
        """Return the event of a message; None if it was received before."""
        data = json.loads(message.data)
        if "seq" not in data:
            return LiveEvent.from_json(data)
        event = Event.from_json(data)
        return event if self._is_new(event) else None

    def _is_new(self, event: Event) -> bool:
        """Record an event, and return False if it was received before."""
        if event.seq <= self._last:
            return False
        self._last, self._failures = event.seq, 0
        return True

    async def _has_ended(self) -> bool:
        run: Any = await send(get(path_of("workflow-runs", self._run_id), read_data), self._connection)
        return run["status"] in ENDED

    async def _next_events(self) -> list[Event]:
        params = {"after": self._last, "pageSize": LARGEST_PAGE}
        call = get(path_of("workflow-runs", self._run_id, "events"), Event.read_all, params)
        return [event for event in await send(call, self._connection) if self._is_new(event)]


# -- server-sent events


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class Parser:
    """Parses pieces of a stream into messages."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_started = False
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yield the messages that end in this piece."""
        for line in self._lines(piece):
            if line:
                self._parse_line(line.decode("utf-8", "replace"))
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield complete lines, which end with CR, LF or both. A final CR is kept, because an LF may follow."""
        text = self._buffer + piece
        if not self._has_started and len(text) < len(_BOM) and _BOM.startswith(text):
            self._buffer = text
            return
        if not self._has_started:
            self._has_started, text = True, text.removeprefix(_BOM)
        ends_with_cr = text[-1:] == b"\r"
        text = (text[:-1] if ends_with_cr else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, remainder = text.split(b"\n")
        self._buffer = remainder + b"\r" if ends_with_cr else remainder
        yield from lines

    def _parse_line(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:  # a comment, or an unknown field
                pass

    def _dispatch(self) -> Message | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return Message(event or "message", "\n".join(data), self._id) if data else None
